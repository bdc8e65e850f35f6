//! A file has one normalized path: normalizing again changes nothing, and neither do `.` and empty components; so a
//! scope gives the same result for every spelling.

use ttsr_views::path::{PathScope, ToolScope, normalise};

// Layout of the input: the root, the path and the globs, with zeros between them. An empty root is none.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut fields = text.split('\0');
    let (Some(root), Some(path)) = (fields.next(), fields.next()) else {
        return;
    };
    let globs: Vec<String> = fields.take(4).map(str::to_owned).collect();
    let root = (!root.is_empty()).then_some(root);
    let name = normalise(path, root);
    assert_eq!(normalise(&name, root), name, "{path:?} in {root:?}");
    assert!(!name.is_empty() && !name.contains('\\') && !name.contains("//"));
    assert!(name == "/" || name.ends_with(":/") || !name.ends_with('/'));
    let is_dot = |segment: &str| segment == ".";
    assert!(name == "." || !name.split('/').skip(1).any(is_dot));
    if name.starts_with('/') {
        assert!(!name.split('/').any(|segment| segment == ".."));
    }
    // Only the first component can be a drive or a share.
    let otherwise = match name.split_once('/') {
        Some((first, rest)) if !first.is_empty() => format!("{first}/.//{rest}/./"),
        _ => name.clone(),
    };
    assert_eq!(
        normalise(&otherwise, root),
        name,
        "{otherwise:?} in {root:?}"
    );
    if globs.iter().any(|glob| glob.len() > 64) {
        return;
    }
    if let Ok(scope) = PathScope::new(&globs) {
        let includes = globs.iter().any(|glob| !glob.starts_with('!'));
        assert_eq!(scope.applies(None).is_none(), includes);
        let all = [globs.as_slice(), &["**".to_owned()]].concat();
        let none = [globs.as_slice(), &["!**".to_owned()]].concat();
        let applies = |globs: &[String]| {
            let scope = PathScope::new(globs).expect("each of the globs is right");
            scope.applies(Some(&name))
        };
        assert!(scope.applies(Some(&name)).is_some());
        assert_eq!(applies(&all), Some(true), "the last glob decides");
        assert_eq!(applies(&none), Some(false), "the last glob decides");
    }
    if let Ok(scope) = ToolScope::new(&globs) {
        let upper = name.to_ascii_uppercase();
        let applies = scope.applies(Some(&name));
        assert!(applies.is_some());
        assert_eq!(applies, scope.applies(Some(&upper)), "case");
    }
}
