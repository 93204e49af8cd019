use nexus_kernel::torture;

/// Each case by itself, so that a filter that matches nothing cannot pass for success.
#[test]
fn every_case_of_the_torture_suite_passes() {
    let mut failures = Vec::new();
    let mut ran = 0;
    for name in torture::case_names() {
        torture::run(name, None, |verdict| {
            ran += 1;
            if let Some(failure) = &verdict.failure {
                failures.push(format!("{}: {failure}", verdict.name));
            }
        });
    }
    assert!(ran >= 70, "only {ran} cases ran");
    assert_eq!(failures, Vec::<String>::new());
}

#[test]
fn case_names_are_unique() {
    let mut names = torture::case_names();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
