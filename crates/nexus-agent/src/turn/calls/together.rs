//! Several pieces of work side by side, a few at a time.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Begins the work in its order, at most `most` pieces at a time, and returns what they gave in the same
/// order once all have ended.
pub(super) async fn together<'a, F>(work: impl Iterator<Item = F>, most: usize) -> Vec<F::Output>
where
    F: Future + Send + 'a,
    F::Output: Send,
{
    let mut waiting: VecDeque<(usize, F)> = work.enumerate().collect();
    let mut ended: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    let mut running: Vec<(usize, Pin<Box<F>>)> = Vec::new();
    poll_fn(|context| {
        loop {
            running.retain_mut(|(place, piece)| match piece.as_mut().poll(context) {
                Poll::Ready(output) => {
                    if let Some(slot) = ended.get_mut(*place) {
                        *slot = Some(output);
                    }
                    false
                }
                Poll::Pending => true,
            });
            // What begins is looked at at once, or nothing would ever wake us for it.
            let room = most.max(1).saturating_sub(running.len()).min(waiting.len());
            if room == 0 {
                break;
            }
            running.extend(waiting.drain(..room).map(|(place, piece)| (place, Box::pin(piece))));
        }
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ended.into_iter().flatten().collect()
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
