//! Runs of vectors: what was made long ago, packed so that reading all of it is little more than
//! copying it.

use rusqlite::{Connection, OptionalExtension, params};

use super::{StoredVector, VectorKind, VectorView};
use crate::error::StoreError;

/// Vectors in a run. Of the usual length a run is small enough to be copied inside the processor's cache.
const RUN: usize = 256;
/// Single vectors from which on runs are made of them.
const MANY_LOOSE: usize = 2 * RUN;
/// Most runs made at once of vectors that stand one by one.
const MAX_AT_ONCE: usize = 64;
/// Bytes of one mark.
const MARK: usize = 28;
/// Audience of a vector that was forgotten.
const FORGOTTEN: i64 = i64::MIN;

/// Hands every vector in runs to `visit`, in the order of rows.
pub(super) fn visit(
    connection: &Connection,
    kind: VectorKind,
    visit: &mut impl FnMut(VectorView<'_>),
) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT marks, vectors FROM vector_chunks WHERE kind = ?1 ORDER BY first")?;
    let mut rows = statement.query(params![kind])?;
    while let Some(row) = rows.next()? {
        let marks = row.get_ref(0)?.as_blob().unwrap_or_default();
        let vectors = row.get_ref(1)?.as_blob().unwrap_or_default();
        let Some(width) = vectors.len().checked_div(marks.len() / MARK).filter(|width| *width > 0) else {
            continue;
        };
        for (mark, bytes) in marks.chunks_exact(MARK).zip(vectors.chunks_exact(width)) {
            let view = unpack(mark, bytes);
            if view.audience != FORGOTTEN {
                visit(view);
            }
        }
    }
    Ok(())
}

/// Returns the last row that stands in a run; 0 when there is none.
pub(super) fn last_row(connection: &Connection, kind: VectorKind) -> Result<i64, StoreError> {
    let sql = "SELECT last FROM vector_chunks WHERE kind = ?1 ORDER BY first DESC LIMIT 1";
    let last = connection.prepare_cached(sql)?.query_row(params![kind], |row| row.get(0)).optional()?;
    Ok(last.unwrap_or(0))
}

/// Returns about how many vectors stand one by one.
pub(super) fn loose(connection: &Connection, kind: VectorKind) -> Result<i64, StoreError> {
    let sql = "SELECT loose FROM vector_sets WHERE kind = ?1";
    let loose = connection.prepare_cached(sql)?.query_row(params![kind], |row| row.get(0)).optional()?;
    Ok(loose.unwrap_or(0))
}

/// Stores as many whole runs as the vectors fill; returns those that are left.
pub(super) fn put_whole<'a>(
    connection: &Connection,
    kind: VectorKind,
    vectors: &'a [&'a StoredVector],
) -> Result<&'a [&'a StoredVector], StoreError> {
    let fits = |run: &[&StoredVector]| {
        run.windows(2).all(|two| two[0].row < two[1].row && two[0].bytes.len() == two[1].bytes.len())
    };
    let mut left = vectors;
    while left.len() >= RUN && fits(left) {
        let (run, rest) = left.split_at(RUN);
        put(connection, kind, run)?;
        left = rest;
    }
    Ok(left)
}

/// Notes that vectors were added one by one, and makes runs of them when there are many.
pub(super) fn grown(
    connection: &Connection,
    kind: VectorKind,
    before: i64,
    added: usize,
) -> Result<(), StoreError> {
    let mut loose = usize::try_from(before).unwrap_or(0) + added;
    if loose >= MANY_LOOSE {
        loose = pack(connection, kind)?;
    }
    connection
        .prepare_cached("UPDATE vector_sets SET loose = ?2 WHERE kind = ?1")?
        .execute(params![kind, i64::try_from(loose).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// Makes runs of single vectors; returns how many single ones are left.
fn pack(connection: &Connection, kind: VectorKind) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT row, audience, at, speaker, vector FROM vectors WHERE kind = ?1 ORDER BY row LIMIT ?2",
    )?;
    let most = i64::try_from(RUN * MAX_AT_ONCE).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![kind, most], |row| {
        Ok(StoredVector {
            row: row.get(0)?,
            audience: row.get(1)?,
            at: row.get(2)?,
            speaker: row.get(3)?,
            bytes: row.get(4)?,
        })
    })?;
    let vectors: Vec<StoredVector> = rows.collect::<rusqlite::Result<_>>()?;
    let all: Vec<&StoredVector> = vectors.iter().collect();
    let packed = all.len() - put_whole(connection, kind, &all)?.len();
    if let Some(last) = packed.checked_sub(1).and_then(|last| all.get(last)) {
        connection
            .prepare_cached("DELETE FROM vectors WHERE kind = ?1 AND row <= ?2")?
            .execute(params![kind, last.row])?;
    }
    let sql = "SELECT count(*) FROM vectors WHERE kind = ?1";
    let left: i64 = connection.prepare_cached(sql)?.query_row(params![kind], |row| row.get(0))?;
    Ok(usize::try_from(left).unwrap_or(0))
}

fn put(connection: &Connection, kind: VectorKind, run: &[&StoredVector]) -> Result<(), StoreError> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
    let mut marks = Vec::with_capacity(run.len() * MARK);
    let mut vectors = Vec::with_capacity(run.len() * first.bytes.len());
    for vector in run {
        for number in [vector.row, vector.audience, vector.at] {
            marks.extend(number.to_le_bytes());
        }
        marks.extend(vector.speaker.to_le_bytes());
        vectors.extend(&vector.bytes);
    }
    connection
        .prepare_cached(
            "INSERT INTO vector_chunks (kind, first, last, live, marks, vectors) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            kind,
            first.row,
            last.row,
            i64::try_from(run.len()).unwrap_or(i64::MAX),
            marks,
            vectors
        ])?;
    Ok(())
}

/// Overwrites the vector of a row that stands in a run; returns whether it was there.
pub(super) fn wipe(connection: &Connection, kind: VectorKind, row: i64) -> Result<bool, StoreError> {
    let found: Option<(i64, Vec<u8>, Vec<u8>)> = connection
        .prepare_cached(
            "SELECT first, marks, vectors FROM vector_chunks WHERE kind = ?1 AND first <= ?2 AND last >= ?2",
        )?
        .query_row(params![kind, row], |found| Ok((found.get(0)?, found.get(1)?, found.get(2)?)))
        .optional()?;
    let Some((first, mut marks, mut vectors)) = found else { return Ok(false) };
    let count = marks.len() / MARK;
    let is_it = |mark: &[u8]| mark.starts_with(&row.to_le_bytes());
    let Some(at) = marks.chunks_exact(MARK).position(is_it) else { return Ok(false) };
    let width = vectors.len() / count.max(1);
    let mark = &mut marks[at * MARK..(at + 1) * MARK];
    if unpack(mark, &[]).audience == FORGOTTEN {
        return Ok(false);
    }
    mark[8..16].copy_from_slice(&FORGOTTEN.to_le_bytes());
    mark[16..].fill(0);
    vectors[at * width..(at + 1) * width].fill(0);
    connection
        .prepare_cached(
            "UPDATE vector_chunks SET live = live - 1, marks = ?3, vectors = ?4 WHERE kind = ?1 AND first = ?2",
        )?
        .execute(params![kind, first, marks, vectors])?;
    Ok(true)
}

fn unpack<'a>(mark: &[u8], bytes: &'a [u8]) -> VectorView<'a> {
    let number = |at: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&mark[at..at + 8]);
        i64::from_le_bytes(eight)
    };
    let speaker = u32::from_le_bytes([mark[24], mark[25], mark[26], mark[27]]);
    VectorView { row: number(0), audience: number(8), at: number(16), speaker, bytes }
}
