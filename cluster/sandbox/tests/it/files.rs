//! What a program sees of files, and what it cannot do to them.

use cluster_sandbox::{ContainerOptions, Ended};

use crate::kit::{finish, line, mount, python, run, shell};

#[tokio::test]
async fn volumes_appear_at_paths_that_the_host_does_not_have() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "value").unwrap();
    let file = folder.path().join("key");
    let mut options = shell(
        "cat /etc/orangery-test/deep/key /var/lib/orangery-test/x/key /var/run/secrets/k8s/key /data-orangery/key /etc/hosts; \
         ls /etc/passwd; \
         echo new > /data-orangery/written; echo no > /etc/orangery-test/deep/key",
    );
    options.mounts = vec![
        mount(folder.path(), "/etc/orangery-test/deep", false),
        mount(folder.path(), "/var/lib/orangery-test/x", false),
        mount(folder.path(), "/var/run/secrets/k8s", false),
        mount(folder.path(), "/data-orangery", true),
        mount(&file, "/etc/hosts", false),
    ];
    let (text, ended) = run(options).await;
    assert!(text.starts_with("valuevaluevaluevaluevalue/etc/passwd\n"), "{text}");
    assert!(text.contains("Read-only file system"), "{text}");
    assert_eq!(ended, Ended::Exited(2));
    assert_eq!(std::fs::read_to_string(folder.path().join("written")).unwrap(), "new\n");
    for path in [
        "/etc/orangery-test",
        "/var/lib/orangery-test",
        "/run/secrets/k8s",
        "/data-orangery",
    ] {
        assert!(!std::path::Path::new(path).exists(), "{path} was made on the host");
    }
}

#[tokio::test]
async fn a_volume_appears_beside_mounts_of_the_host() {
    // The host has mounts in /sys/fs, above which no overlay can be made without root.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "value").unwrap();
    let mut options = shell("cat /sys/fs/orangery-test/deep/key; ls /sys/fs/cgroup | wc -l; touch /sys/fs/x");
    options.mounts = vec![mount(folder.path(), "/sys/fs/orangery-test/deep", false)];
    let (text, ended) = run(options).await;
    let groups = std::fs::read_dir("/sys/fs/cgroup").unwrap().count();
    assert!(text.starts_with(&format!("value{groups}\n")), "{text}");
    assert_eq!(ended, Ended::Exited(1));
}

#[tokio::test]
async fn a_swapped_link_in_a_volume_is_visible_immediately_and_nested_volumes_work() {
    let (outer, inner) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(inner.path().join("b"), "inner").unwrap();
    std::fs::create_dir(outer.path().join("v1")).unwrap();
    std::fs::write(outer.path().join("v1/a"), "outer").unwrap();
    std::os::unix::fs::symlink("v1", outer.path().join("..data")).unwrap();
    let mut options = shell("cat /vol/..data/a /vol/nested/b");
    options.mounts = vec![
        mount(inner.path(), "/vol/nested", false),
        mount(outer.path(), "/vol", false),
    ];
    assert_eq!(run(options).await, ("outerinner".to_owned(), Ended::Exited(0)));
}

#[tokio::test]
async fn a_link_in_a_volume_leads_to_no_place_outside_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, outside) = (folder.path().join("v"), folder.path().join("outside"));
    std::fs::create_dir_all(volume.join("v1/deep")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(volume.join("v1/deep/key"), "within").unwrap();
    for (target, link) in [
        ("v1", "..data"),
        ("..data/deep/key", "key"),
        ("../outside", "out"),
        (outside.to_str().unwrap(), "absolute"),
    ] {
        std::os::unix::fs::symlink(target, volume.join(link)).unwrap();
    }
    let part = |sub_path: &str| {
        let mut options = shell("if [ -d /part ]; then cat /part/*; touch /part/written; else cat /part; fi");
        let mut mount = mount(&volume, "/part", true);
        mount.sub_path = sub_path.into();
        options.mounts = vec![mount];
        options
    };
    for sub_path in ["key", "..data/deep"] {
        assert_eq!(
            run(part(sub_path)).await,
            ("within".to_owned(), Ended::Exited(0)),
            "{sub_path}"
        );
    }
    assert!(volume.join("v1/deep/written").exists());
    let pod = crate::kit::pod(1).await;
    for sub_path in ["out", "absolute", "../outside", "/etc", "v1/../../outside"] {
        let error = pod.start_container(part(sub_path)).await.unwrap_err().to_string();
        assert!(
            error.ends_with(": the path leads out of the volume"),
            "{sub_path}: {error}"
        );
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn a_link_in_a_volume_leads_no_mount_in_it_outside() {
    let folder = tempfile::tempdir().unwrap();
    let (outer, outside, inner) = (
        folder.path().join("v"),
        folder.path().join("outside"),
        folder.path().join("inner"),
    );
    for folder in [&outer.join("within"), &outside, &inner] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(inner.join("key"), "inner").unwrap();
    for (target, link) in [("within", "link"), ("/usr", "usr"), (outside.to_str().unwrap(), "out")] {
        std::os::unix::fs::symlink(target, outer.join(link)).unwrap();
    }
    let nested = |path: &str, script: &str| {
        let mut options = shell(script);
        options.mounts = vec![mount(&outer, "/vol", true), mount(&inner, path, false)];
        options
    };
    let (text, ended) = run(nested("/vol/link", "cat /vol/within/key; touch /vol/within/x")).await;
    assert!(text.starts_with("inner") && text.contains("Read-only"), "{text}");
    assert_eq!(ended, Ended::Exited(1));
    assert!(!inner.join("x").exists());
    let (text, _) = run(nested("/vol/link/deep", "cat /vol/within/deep/key")).await;
    assert_eq!(text, "inner");
    let pod = crate::kit::pod(1).await;
    for path in ["/vol/out/new", "/vol/usr"] {
        let error = pod.start_container(nested(path, "true")).await.unwrap_err().to_string();
        assert!(error.ends_with(": the path leads out of the volume"), "{path}: {error}");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn read_only_mount_in_a_volume_stays_so_while_folders_are_swapped() {
    let (outer, inner) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a", "b"] {
        std::fs::create_dir(outer.path().join(name)).unwrap();
    }
    let pod = crate::kit::pod(1).await;
    // Another program of the pod exchanges them without end; 2 is RENAME_EXCHANGE, -100 is AT_FDCWD.
    let mut swapping = python(
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nswapped = 0\nwhile True:\n  \
         if libc.renameat2(-100, b'/vol/a', -100, b'/vol/b', 2): raise OSError(ctypes.get_errno(), 'exchange')\n  \
         if not swapped: print('swapping', flush=True)\n  swapped = 1\n",
    );
    swapping.mounts = vec![mount(outer.path(), "/vol", true)];
    let mut swapping = pod.start_container(swapping).await.unwrap();
    assert_eq!(line(&mut swapping.output().unwrap().0).await, "swapping");
    for _ in 0..8 {
        let mut options = shell(
            "while read -r _ _ _ _ place flags _; do \
             case $place in /vol/*) echo ${flags%%,*};; esac; done < /proc/self/mountinfo",
        );
        options.mounts = vec![mount(outer.path(), "/vol", true), mount(inner.path(), "/vol/a", false)];
        let container = pod.start_container(options).await.unwrap();
        assert_eq!(finish(container).await, ("ro\n".to_owned(), Ended::Exited(0)));
    }
}

#[tokio::test]
async fn the_hosts_root_cannot_be_made_writable() {
    let marker = format!("/usr/orangery-test-{}", std::process::id());
    let script = format!(
        "touch {marker}; mount -o remount,rw,bind /usr; mount -o remount,rw /usr; mount -o remount,rw,bind /; umount /usr; umount -l /proc/sys; \
         touch {marker}; echo 1 > /proc/sys/vm/drop_caches; echo b > /proc/sysrq-trigger; \
         unshare -m mount -o remount,rw,bind /usr; unshare -Urm mount -o remount,rw,bind /usr; \
         unshare -fpm mount -t proc proc /proc; touch {marker} /marker; \
         if [ -e {marker} ]; then echo WRITTEN; fi; \
         mkdir /tmp/x && mount -t tmpfs none /tmp/x && echo may-mount"
    );
    let (text, _) = run(shell(&script)).await;
    assert!(!text.contains("WRITTEN"), "{text}");
    assert!(text.contains("may-mount"), "{text}");
    for expected in ["/usr", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(!std::path::Path::new(&marker).exists());
}

#[tokio::test]
async fn a_writable_volume_over_a_mount_of_a_read_only_one_is_written() {
    let volume = tempfile::tempdir().unwrap();
    let mut options = shell("touch /vol/cgroup/x; touch /vol/y");
    // Hosts have something mounted at /sys/fs/cgroup.
    options.mounts = vec![
        mount("/sys/fs".as_ref(), "/vol", false),
        mount(volume.path(), "/vol/cgroup", true),
    ];
    let (text, _) = run(options).await;
    assert!(volume.path().join("x").exists(), "{text}");
    assert!(text.contains("/vol/y"), "{text}");
}

#[tokio::test]
async fn a_file_is_not_mounted_over_a_folder_of_a_volume() {
    let (outer, inner) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(outer.path().join("a")).unwrap();
    std::fs::write(inner.path().join("file"), "").unwrap();
    let mut options = shell("true");
    options.mounts = vec![
        mount(outer.path(), "/vol", true),
        mount(&inner.path().join("file"), "/vol/a", false),
    ];
    let pod = crate::kit::pod(1).await;
    let error = pod.start_container(options).await.unwrap_err().to_string();
    assert!(error.contains("/vol/a") && error.contains("Not a directory"), "{error}");
}

#[tokio::test]
async fn hidden_folders_are_empty_but_for_volumes_in_them() {
    // Not in /tmp, which is a folder of the container's own.
    let shown = std::path::Path::new("/usr/share");
    let volume = tempfile::tempdir().unwrap();
    std::fs::write(volume.path().join("a"), "").unwrap();
    let mut options = shell("ls /usr/share; ls /usr/share/mine; touch /usr/share/x; ls / | tr '\\n' ' '");
    options.hidden = vec![shown.to_owned(), "/not/there".into()];
    options.mounts = vec![mount(volume.path(), "/usr/share/mine", false)];
    let (text, _) = run(options).await;
    assert!(text.starts_with("mine\na\n"), "{text}");
    assert!(text.contains("Read-only file system"), "{text}");
    assert!(!text.contains(".old"), "{text}");
}

#[tokio::test]
async fn folders_of_the_containers_own_are_writable_and_devices_are_few() {
    let script = "echo x > /tmp/a && echo x > /run/a && echo x > /dev/shm/a && echo x > /dev/null && cat /tmp/a; \
                  ls /dev | tr '\\n' ' '; head -c 4 /dev/zero | wc -c; ls /run; readlink /proc/self; ls /proc | grep -c '^[0-9]'";
    let (text, _) = run(shell(script)).await;
    assert!(
        text.starts_with("x\nfd full null ptmx pts random shm stderr stdin stdout tty urandom zero 4\na\n"),
        "{text}"
    );
}

#[tokio::test]
async fn nothing_is_left_on_the_host() {
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = mounts();
    let volume = tempfile::tempdir().unwrap();
    let mut options = shell("true");
    options.mounts = vec![mount(volume.path(), "/etc/orangery-test/a", true)];
    assert_eq!(run(options).await.1, Ended::Exited(0));
    assert_eq!(mounts(), before);
    assert_eq!(std::fs::read_dir(volume.path()).unwrap().count(), 0);
    assert!(!std::path::Path::new("/.old").exists());
}

#[tokio::test]
async fn error_names_what_cannot_be_mounted_or_started() {
    let pod = crate::kit::pod(1).await;
    let mut missing_volume = shell("true");
    missing_volume.mounts = vec![mount(std::path::Path::new("/not/there"), "/x", false)];
    let mut missing_folder = shell("true");
    missing_folder.working_dir = "/not/there".into();
    let missing_program = ContainerOptions {
        command: vec!["/not/there".into()],
        ..shell("")
    };
    let no_program = ContainerOptions {
        command: vec!["/etc/passwd".into()],
        ..shell("")
    };
    let relative = ContainerOptions {
        command: vec!["sh".into()],
        ..shell("")
    };
    for (options, message) in [
        (
            missing_volume,
            "cannot mount a volume /not/there: No such file or directory (os error 2)",
        ),
        (
            missing_folder,
            "cannot enter the working folder /not/there: No such file or directory (os error 2)",
        ),
        (
            missing_program,
            "cannot start the program /not/there: No such file or directory (os error 2)",
        ),
        (
            no_program,
            "cannot start the program /etc/passwd: Permission denied (os error 13)",
        ),
        (relative, "the command `sh` is not an absolute path"),
    ] {
        assert_eq!(pod.start_container(options).await.unwrap_err().to_string(), message);
    }
}
