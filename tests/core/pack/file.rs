//! Encodings, links, odd files, and files that change while they are read.

use std::fs;
use std::path::Path;

use ttsr::pack::LoadErrorKind;
use ttsr::{Diagnostic, Limits, Pack};

use super::{Folder, GoldenFolder as _, HEADER, rule, with_rules};
#[cfg(unix)]
use ttsr_testing::skip;

#[test]
fn encodings() {
    let good = with_rules(&rule("a", "{ literal = 'x' }", ""));
    let utf16: Vec<u8> = std::iter::once(0xfeff)
        .chain(good.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let folder = Folder::new();
    folder.write("utf-16.toml", utf16);
    folder.write("latin-1.toml", b"schema = 1\npack.name = \"d\xe9mo\"\n");
    folder.write(
        "mark-and-crlf.toml",
        format!("\u{feff}{}", good.replace('\n', "\r\n")),
    );
    folder.golden("encoding", Limits::default());
    fs::remove_file(folder.0.join("utf-16.toml")).unwrap();
    fs::remove_file(folder.0.join("latin-1.toml")).unwrap();
    assert_eq!(Pack::load(&folder.0).unwrap().rules().len(), 1);
}

#[test]
fn bytes_that_are_no_text_are_errors() {
    let good = with_rules(&rule("a", "{ literal = 'x' }", ""));
    let wide = |to_bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        good.encode_utf16().flat_map(to_bytes).collect()
    };
    let long: Vec<u8> = good
        .chars()
        .flat_map(|c| u32::from(c).to_le_bytes())
        .collect();
    let mut overlong = good.clone().into_bytes();
    overlong.extend_from_slice(b"# \xc0\xaf\n");
    let mut zero = good.clone().into_bytes();
    zero.extend_from_slice(b"\0\n");
    for (name, bytes) in [
        ("UTF-16, big end first", wide(u16::to_be_bytes)),
        ("UTF-16 without a mark", wide(u16::to_le_bytes)),
        ("UTF-32", long),
        ("an overlong in a comment", overlong),
        ("a NUL", zero),
    ] {
        let folder = Folder::new();
        let file = folder.write("a.toml", bytes);
        let error = Pack::load(&file).expect_err(name);
        assert!(!error.diagnostics().is_empty(), "{name}");
        let shown: String = error.diagnostics().iter().map(Diagnostic::render).collect();
        let is_odd = |c: char| c.is_control() && c != '\n';
        assert!(!shown.contains(is_odd), "{name}: {shown:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    folder.write("a.toml", with_rules(&rule("a", "{ literal = 'x' }", "")));
    let closed = folder.write("b.toml", with_rules(&rule("b", "{ literal = 'y' }", "")));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&closed).is_ok() {
        return skip::test("this user may read every file");
    }
    let error = Pack::load(&folder.0).unwrap_err();
    assert_eq!(
        (error.kind(), error.diagnostics()[0].code()),
        (LoadErrorKind::Io, "unreadable")
    );
}

#[cfg(unix)]
#[test]
fn links_pipes_and_odd_folders() {
    use std::os::unix::fs::symlink;
    let outside = Folder::new();
    let secret = outside.write("secret.toml", HEADER);
    let folder = Folder::new();
    folder.write(
        "a/one.toml",
        with_rules(&rule("one", "{ literal = 'x' }", "")),
    );
    folder.write(
        "folder.toml/two.toml",
        with_rules(&rule("two", "{ literal = 'x' }", "")),
    );
    folder.write("notes.txt", "not a rule file");
    symlink("one.toml", folder.0.join("a/same-file.toml")).unwrap();
    symlink("a", folder.0.join("same-folder")).unwrap();
    assert_eq!(Pack::load(&folder.0).unwrap().rules().len(), 2);

    symlink("..", folder.0.join("a/loop")).unwrap();
    let pack = Pack::load(&folder.0).unwrap();
    assert_eq!(
        (pack.rules().len(), pack.warnings()[0].code()),
        (2, "link-loop")
    );

    symlink("nowhere", folder.0.join("dangling.toml")).unwrap();
    symlink("nowhere", folder.0.join("dangling.txt")).unwrap();
    symlink("itself.toml", folder.0.join("itself.toml")).unwrap();
    symlink(&secret, folder.0.join("out.toml")).unwrap();
    symlink(&outside.0, folder.0.join("out")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(folder.0.join("socket.toml")).unwrap();
    symlink("socket.toml", folder.0.join("to-socket.toml")).unwrap();
    folder.golden("folder-links", Limits::default());
    drop(socket);
}

/// Two deep chains of folders are made apart and joined, because no path to the joined chain is short enough.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_is_too_deep_to_be_read_is_an_error() {
    let folder = Folder::new();
    folder.write("a.toml", with_rules(&rule("a", "{ literal = 'x' }", "")));
    let name = "d".repeat(200);
    let chain = |top: &str| {
        let deep: std::path::PathBuf = std::iter::repeat_n(name.as_str(), 12).collect();
        let deep = folder.0.join(top).join(deep);
        fs::create_dir_all(&deep).unwrap();
        deep
    };
    let (upper, _) = (chain("upper"), chain("lower"));
    assert_eq!(Pack::load(&folder.0).unwrap().rules().len(), 1);
    fs::rename(folder.0.join("lower"), upper.join("lower")).unwrap();
    let error = Pack::load(&folder.0).unwrap_err();
    let found: Vec<_> = error.diagnostics().iter().map(Diagnostic::code).collect();
    assert_eq!(
        (error.kind(), &found[..]),
        (LoadErrorKind::Io, &["unreadable"][..])
    );
}

#[cfg(unix)]
#[test]
fn a_pipe_is_never_opened() {
    let folder = Folder::new();
    let pipe = folder.0.join("pipe.toml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip::test("mkfifo is not there");
    }
    // Opening a pipe without a writer would block for ever.
    for path in [&folder.0, &pipe, Path::new("/dev/null")] {
        let error = Pack::load(path).unwrap_err();
        assert_eq!(error.kind(), LoadErrorKind::Io);
        assert_eq!(error.diagnostics()[0].code(), "not-a-file");
    }
}

#[test]
fn what_is_not_there_or_holds_no_rules_is_an_error() {
    let folder = Folder::new();
    folder.write("sub/readme.md", "no rules here");
    folder.golden("folder-without-rules", Limits::default());
    let error = Pack::load(folder.0.join("none.toml")).unwrap_err();
    assert_eq!(
        (error.kind(), error.diagnostics()[0].code()),
        (LoadErrorKind::Io, "unreadable")
    );
}

#[test]
fn size_and_number_of_files_are_capped() {
    let folder = Folder::new();
    for number in 0..5 {
        let text = with_rules(&rule(&format!("r{number}"), "{ literal = 'x' }", ""));
        folder.write(&format!("{number}.toml"), text);
    }
    folder.golden(
        "folder-too-many-files",
        Limits {
            files: 4,
            ..Limits::default()
        },
    );
    assert_eq!(
        Pack::builder()
            .file(&folder.0)
            .limits(Limits {
                files: 5,
                ..Limits::default()
            })
            .build()
            .unwrap()
            .rules()
            .len(),
        5
    );
    folder.golden(
        "folder-file-too-large",
        Limits {
            file_bytes: 40,
            ..Limits::default()
        },
    );

    // All files together may be no more than sixteen of the longest.
    let many = Folder::new();
    for number in 10..30 {
        let text = with_rules(&rule(&format!("r{number}"), "{ literal = 'x' }", ""));
        assert_eq!(text.len(), 117);
        many.write(&format!("{number}.toml"), text);
    }
    let load = |file_bytes: u64| {
        let limits = Limits {
            file_bytes,
            ..Limits::default()
        };
        Pack::builder().file(&many.0).limits(limits).build()
    };
    assert_eq!(load(147).unwrap().rules().len(), 20);
    let error = load(146).unwrap_err();
    assert_eq!(error.kind(), LoadErrorKind::TooLarge);
    let message = "with this file all files are 2340 bytes, limit is 2336";
    assert!(error.to_string().contains(message), "{error}");

    let file = fs::File::create(folder.0.join("huge.toml")).unwrap();
    file.set_len(4 << 30).unwrap();
    let error = Pack::load(&folder.0).unwrap_err();
    assert_eq!(error.kind(), LoadErrorKind::TooLarge);
    assert!(
        error
            .to_string()
            .contains("4294967296 bytes, limit is 16777216"),
        "{error}"
    );
}

/// A file that grows while it is read looks like a file of the kernel: it has more bytes than its length.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_longer_than_it_says_is_read_to_its_bound() {
    let path = Path::new("/proc/self/maps");
    assert_eq!(fs::metadata(path).unwrap().len(), 0);
    let limits = Limits {
        file_bytes: 64,
        ..Limits::default()
    };
    let error = Pack::builder().file(path).limits(limits).build();
    let error = error.unwrap_err();
    assert_eq!(error.kind(), LoadErrorKind::TooLarge);
    assert!(
        error.to_string().contains("65 bytes, limit is 64"),
        "{error}"
    );
}

#[test]
fn folders_full_of_other_files_end_too() {
    let folder = Folder::new();
    for number in 0..33 {
        folder.write(&format!("{number}.txt"), "");
    }
    let error = Pack::builder()
        .file(&folder.0)
        .limits(Limits {
            files: 2,
            ..Limits::default()
        })
        .build();
    assert_eq!(error.unwrap_err().diagnostics()[0].code(), "too-many-files");
}

#[test]
fn a_bad_new_pack_leaves_the_old_one_whole() {
    let folder = Folder::new();
    let file = folder.write("a.toml", with_rules(&rule("a", "{ literal = 'x' }", "")));
    let old = Pack::load(&file).unwrap();
    let kept = old.clone();
    fs::write(&file, "schema = 1\n[pack").unwrap();
    assert!(Pack::load(&file).is_err());
    assert_eq!(
        (old.rules().len(), kept.rules()[0].id.as_str()),
        (1, "demo/a")
    );
}

/// A file is replaced by renaming another one over it. Each load reads the old file or the new one as a whole.
#[test]
fn a_file_that_is_replaced_while_it_is_loaded_is_one_of_the_two() {
    let folder = Folder::new();
    let texts = [1, 200].map(|count| {
        let rules = (0..count).map(|number| rule(&format!("r{number}"), "{ literal = 'x' }", ""));
        with_rules(&rules.collect::<String>())
    });
    let file = folder.write("a.toml", &texts[0]);
    let found = std::thread::scope(|scope| {
        let loading = scope.spawn(|| (0..20).map(|_| Pack::load(&file)).collect::<Vec<_>>());
        for text in texts.iter().cycle() {
            let next = folder.write("next", text);
            fs::rename(next, &file).unwrap();
            if loading.is_finished() {
                break;
            }
        }
        loading.join().unwrap()
    });
    for pack in found {
        let count = pack.unwrap_or_else(|error| panic!("{error}")).rules().len();
        assert!([1, 200].contains(&count), "{count} rules");
    }
}

#[test]
fn the_same_file_named_twice_is_read_once() {
    let folder = Folder::new();
    let file = folder.write(
        "sub/a.toml",
        with_rules(&rule("a", "{ literal = 'x' }", "")),
    );
    let paths = [&file, &file, &folder.0, &folder.0, &folder.0.join("sub")];
    let builder = paths
        .into_iter()
        .fold(Pack::builder(), |builder, path| builder.file(path));
    assert_eq!(builder.build().unwrap().rules().len(), 1);
}
