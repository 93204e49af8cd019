//! Memory is removed as a commit: of those paths and nothing else, wherever the repository lies, and a death on the
//! way loses nothing.

use nexus_base::failpoint;
use nexus_testkit::Run;

use crate::repository::{Repository, gc, git, put};

#[test]
fn removal_is_one_commit_of_those_paths_and_names_the_way_back() {
    let repository = Repository::new();
    put(&repository.root.join("staged.txt"), "mine", 0o644);
    repository.git(&["add", "staged.txt"]);
    let removed = repository.gc(&["one.md", "--json"]).ok().json();
    assert!(!repository.has("one.md") && repository.has("two.md"));
    assert_eq!(repository.git(&["show", "--name-status", "--format=", "HEAD"]), "D\t.nexus/memory/one.md");
    assert_eq!(repository.git(&["show", "-s", "--format=%an %ae"]), "Nexus nexus@localhost");
    assert_eq!(repository.git(&["diff", "--cached", "--name-only"]), "staged.txt");
    let recovery = removed["recovery"].as_str().unwrap();
    let message = repository.git(&["log", "-1", "--format=%B"]);
    assert!(message.contains(recovery), "{message}");
    repository.git(&recovery.split(' ').skip(1).collect::<Vec<_>>());
    assert!(repository.has("one.md"));
}

#[test]
fn what_no_commit_holds_stays() {
    let repository = Repository::new();
    put(&repository.root.join(".nexus/memory/one.md"), "new\n", 0o644);
    let changed = repository.gc(&["one.md"]);
    assert!(changed.stderr.contains("uncommitted changes"), "{}", changed.stderr);
    put(&repository.root.join(".nexus/memory/new.md"), "new\n", 0o644);
    let never = repository.gc(&["new.md"]);
    assert!(never.stderr.contains("uncommitted changes"), "{}", never.stderr);
    std::fs::rename(repository.root.join(".git"), repository.root.join("other")).unwrap();
    repository.git(&["init", "-q", "-b", "main"]);
    let empty = repository.gc(&["two.md"]);
    assert!(empty.stderr.contains("not in a git repository with a commit"), "{}", empty.stderr);
    assert!(["one.md", "two.md", "new.md"].iter().all(|name| repository.has(name)));
}

#[test]
fn work_trees_submodules_and_shared_objects_are_repositories_too() {
    let repository = Repository::new();
    let beside = |name: &str| repository.workspace.home().join(name);
    let top = repository.workspace.home();
    let (tree, shared, parent) = (beside("tree"), beside("shared"), beside("parent"));
    repository.git(&["worktree", "add", "-q", tree.to_str().unwrap()]);
    git(&top, &["clone", "-q", "--shared", "project", "shared"]);
    git(&top, &["init", "-q", "parent"]);
    git(&parent, &["submodule", "--quiet", "add", repository.root.to_str().unwrap(), "inner"]);
    put(&parent.join("deep/.nexus/memory/two.md"), "old\n", 0o644);
    git(&parent, &["add", "-A"]);
    git(&parent, &["commit", "-q", "-m", "first"]);
    for root in [tree, shared, parent.join("inner"), parent.join("deep")] {
        gc(&repository.workspace, &root, &["two.md"]).ok();
        assert!(!root.join(".nexus/memory/two.md").exists(), "{}", root.display());
        let shown = git(&root, &["show", "--name-status", "--format=%s", "HEAD"]);
        assert!(shown.starts_with("memory: remove 1 file\n\nD\t"), "{}: {shown}", root.display());
        assert_eq!(git(&root, &["diff", "--cached", "--name-only"]), "", "{}", root.display());
    }
    assert_eq!(repository.git(&["log", "-1", "--format=%s", "main"]), "first", "the others are others");
}

#[test]
fn the_commit_is_the_owners_by_their_own_settings() {
    let repository = Repository::new();
    let home = repository.workspace.home();
    put(&home.join("dotfiles/work"), "[user]\n\temail = kim@work.example\n", 0o600);
    let settings = "[user]\n\tname = Kim\n\temail = kim@home.example\n[includeIf \"gitdir:~/project/\"]\n\tpath = dotfiles/work\n";
    put(&home.join("dotfiles/gitconfig"), settings, 0o600);
    std::os::unix::fs::symlink(home.join("dotfiles/gitconfig"), home.join(".gitconfig")).unwrap();
    // Relative to where the file is read, which is the link.
    repository.gc(&["one.md"]).ok();
    assert_eq!(repository.git(&["show", "-s", "--format=%an %ae"]), "Kim kim@work.example");
    repository.git(&["config", "user.email", "kim@project.example"]);
    repository.gc(&["two.md"]).ok();
    assert_eq!(repository.git(&["show", "-s", "--format=%an %ae"]), "Kim kim@project.example");
}

#[test]
fn a_file_goes_only_after_its_commit() {
    for (place, committed) in [("project.gc_commit", false), ("project.gc_committed", true)] {
        let repository = Repository::new();
        let project = repository.root.to_str().unwrap();
        let dying = Run::new(&["project", "--project", project, "gc", "one.md"]);
        let died = repository.workspace.run(&dying.variable(failpoint::VARIABLE, place));
        assert_eq!(died.code(), None, "{place} was not reached: {}", died.stderr);
        // Neither way is anything lost: the file goes last.
        assert!(repository.has("one.md"), "{place}");
        let removed = repository.git(&["log", "--format=%s", "--", ".nexus/memory/one.md"]);
        assert_eq!(removed.starts_with("memory: remove"), committed, "{place}: {removed}");
        if !committed {
            repository.gc(&["one.md"]).ok();
            assert!(!repository.has("one.md"));
        }
    }
}
