//! Normalization of paths as they are written in operands.

use std::borrow::Cow;

use super::event::WordTraits;

/// Returns the path without what does not change its meaning: repeated slashes, `.` segments and segments that a `..`
/// removes. The home directory is written `~`, for an unquoted tilde, `$HOME` and `${HOME}`.
///
/// `..` at the beginning of a relative path, after `~` and after an expansion remains. The trailing slash remains.
///
/// # Example: spellings of the root and of the home directory
///
/// ```
/// use ttsr_views::command::{WordTraits, normalize_path};
///
/// let normal = |path: &'static str| normalize_path(path.as_bytes(), WordTraits::default());
/// assert_eq!(*normal("//etc/./passwd"), *b"/etc/passwd");
/// assert_eq!(*normal("/tmp/../*"), *b"/*");
/// assert_eq!(*normal("a//b/../c/"), *b"a/c/");
/// // `$HOME` is only text if it was quoted.
/// assert_eq!(*normal("$HOME/x"), *b"$HOME/x");
/// ```
pub fn normalize_path(path: &[u8], traits: WordTraits) -> Cow<'_, [u8]> {
    let home = |path: &[u8]| -> Option<usize> {
        let names: [&[u8]; 2] = [b"$HOME", b"${HOME}"];
        let name = names.into_iter().find(|name| {
            path.starts_with(name) && path.get(name.len()).is_none_or(|&byte| byte == b'/')
        });
        name.map(<[u8]>::len)
    };
    if is_normal(path) && !(traits.expanded() && home(path).is_some()) {
        return Cow::Borrowed(path);
    }
    let (mut normal, rest) = match home(path) {
        Some(length) if traits.expanded() => (b"~".to_vec(), &path[length..]),
        _ if traits.tilde() && path.first() == Some(&b'~') => {
            let end = path.iter().position(|&byte| byte == b'/');
            let (user, rest) = path.split_at(end.unwrap_or(path.len()));
            (user.to_vec(), rest)
        }
        _ => (Vec::new(), path),
    };
    let fixed = normal.len();
    let absolute = rest.first() == Some(&b'/');
    if absolute {
        normal.push(b'/');
    }
    let root = normal.len();
    let mut segments = rest.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"" | b"." => {}
            b".." if remove_segment(&mut normal, root, absolute && fixed == 0) => {}
            _ => {
                normal.extend_from_slice(segment);
                if !last {
                    normal.push(b'/');
                }
            }
        }
    }
    if normal.is_empty() && !path.is_empty() {
        normal.push(b'.');
    }
    Cow::Owned(normal)
}

/// Writes the working directory after a change from `from` to `to` into `path`. Returns false if it is unknown. Both are
/// normalized. `from` is `None` for the directory of the whole text, and empty for an unknown one.
pub(super) fn resolve_directory(from: Option<&[u8]>, to: &[u8], path: &mut Vec<u8>) -> bool {
    path.clear();
    if let Some(from) = from.filter(|_| !to.starts_with(b"/") && !to.starts_with(b"~")) {
        if from.is_empty() {
            return false;
        }
        path.extend_from_slice(from);
        path.push(b'/');
    }
    path.extend_from_slice(to);
    // The home directory is written `~` in both.
    let normal = match normalize_path(path, WordTraits::TILDE) {
        Cow::Borrowed(_) => None,
        Cow::Owned(normal) => Some(normal),
    };
    if let Some(normal) = normal {
        *path = normal;
    }
    if path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    true
}

/// Returns true if the path has neither `.` nor `..` segments nor repeated slashes.
fn is_normal(path: &[u8]) -> bool {
    let last = path.iter().filter(|&&byte| byte == b'/').count();
    let mut segments = path.split(|&byte| byte == b'/').enumerate();
    segments.all(|(index, segment)| match segment {
        b"" => index == 0 || index == last,
        segment => segment != b"." && segment != b"..",
    })
}

/// Removes the last segment. Returns false if `..` must remain.
fn remove_segment(path: &mut Vec<u8>, root: usize, is_root: bool) -> bool {
    let segments = path[root..].strip_suffix(b"/").unwrap_or(&path[root..]);
    if segments.is_empty() {
        return is_root;
    }
    let from = segments
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |slash| slash + 1);
    let last = &segments[from..];
    let unknown = |byte: &u8| matches!(byte, b'$' | b'*' | b'?' | b'[');
    if last == b".." || last.iter().any(unknown) {
        return false;
    }
    path.truncate(root + from);
    true
}
