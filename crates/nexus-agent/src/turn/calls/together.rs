//! Several pieces of work side by side, a few at a time.

use futures_util::{FutureExt, StreamExt, stream};

/// Begins the work in its order, at most `most` pieces at a time, and returns what they gave in the same
/// order once all have ended.
pub(super) async fn together<'a, F>(work: impl Iterator<Item = F>, most: usize) -> Vec<F::Output>
where
    F: Future + Send + 'a,
{
    // Boxed: through the stream's own types the compiler cannot see that the work may be sent. Not `buffered`,
    // whose places what has ended early keeps until all before it has ended.
    let work: Vec<_> =
        work.enumerate().map(|(place, piece)| piece.map(move |gave| (place, gave)).boxed()).collect();
    let mut ended: Vec<(usize, F::Output)> = stream::iter(work).buffer_unordered(most).collect().await;
    ended.sort_unstable_by_key(|(place, _)| *place);
    ended.into_iter().map(|(_, gave)| gave).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::{Barrier, Notify};

    use super::together;

    #[tokio::test]
    async fn work_overlaps_and_comes_back_in_its_order() {
        // Each waits for all the others: one after the other would never end.
        let barrier = Barrier::new(5);
        let gave = together(
            (0..5).map(|number| {
                let barrier = &barrier;
                async move {
                    barrier.wait().await;
                    number
                }
            }),
            5,
        )
        .await;
        assert_eq!(gave, [0, 1, 2, 3, 4]);
        assert!(together(std::iter::empty::<std::future::Ready<u8>>(), 3).await.is_empty());
    }

    #[tokio::test]
    async fn never_more_at_once_than_allowed_and_a_late_first_stays_first() {
        let (now, most, last_began) = (AtomicUsize::new(0), AtomicUsize::new(0), Arc::new(Notify::new()));
        let gave = together(
            (0..20).map(|number| {
                let (now, most, last_began) = (&now, &most, Arc::clone(&last_began));
                async move {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    match number {
                        0 => last_began.notified().await,
                        19 => last_began.notify_one(),
                        _ => tokio::task::yield_now().await,
                    }
                    now.fetch_sub(1, Ordering::SeqCst);
                    number
                }
            }),
            4,
        )
        .await;
        assert_eq!(gave, (0..20).collect::<Vec<_>>());
        assert_eq!(most.into_inner(), 4);
    }
}
