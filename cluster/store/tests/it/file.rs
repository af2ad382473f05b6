//! The file backend alone: who may open a folder, the errors when it cannot be opened, and what closing does.

use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use cluster_store::{FileError, FileOptions, FileStore, Page, Range, Revision, Store, StoreError};
use futures::executor::block_on;
use futures::{FutureExt, StreamExt};
use redb::{Database, TableDefinition};
use tempfile::TempDir;

use crate::suite::{Backend, object, pod};

/// File stores in folders of their own.
pub(crate) struct Files {
    stores: Mutex<Vec<(Weak<FileStore>, TempDir)>>,
    folder: fn() -> TempDir,
}

impl Files {
    /// On a file system in memory where there is one: for tests that need many writes and no disk.
    pub(crate) fn in_memory() -> Self {
        Files {
            stores: Mutex::default(),
            folder: folder_in_memory,
        }
    }
}

pub(crate) fn folder_in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

impl Backend for Files {
    fn fresh(&self) -> Arc<dyn Store> {
        let folder = (self.folder)();
        let store = Arc::new(block_on(open(folder.path())).unwrap());
        self.stores.lock().unwrap().push((Arc::downgrade(&store), folder));
        store
    }

    fn reopened(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let mut stores = self.stores.lock().unwrap();
        let found = stores
            .iter_mut()
            .find(|(known, _)| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(&store)));
        let (known, folder) = found.unwrap();
        block_on(known.upgrade().unwrap().close()).unwrap();
        let store = Arc::new(block_on(open(folder.path())).unwrap());
        *known = Arc::downgrade(&store);
        store
    }
}

pub(crate) async fn open(folder: &Path) -> Result<FileStore, FileError> {
    FileStore::open(folder, FileOptions::default()).await
}

/// A closed store with one object in it.
async fn folder_with_a_store() -> TempDir {
    let folder = folder_in_memory();
    let store = open(folder.path()).await.unwrap();
    store.create(pod("a", "x"), object("x", 1)).await.unwrap();
    store.close().await.unwrap();
    folder
}

async fn refusal(folder: &Path) -> (FileError, String) {
    let error = open(folder).await.err().unwrap();
    let text = error.to_string();
    assert!(text.contains(folder.to_str().unwrap()), "it names the path: {text}");
    (error, text)
}

fn contains_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` in: {text}");
    }
}

#[tokio::test]
async fn folder_in_use_is_refused_and_free_again_after_close() {
    let folder = folder_with_a_store().await;
    let store = open(folder.path()).await.unwrap();
    let (error, text) = refusal(folder.path()).await;
    assert!(matches!(error, FileError::Locked { .. }), "{error:?}");
    let holder = format!("in use by process {}", std::process::id());
    contains_all(&text, &[&holder, "one store at a time", "choose another folder"]);
    store.close().await.unwrap();
    let again = open(folder.path()).await.unwrap();
    assert!(again.get(&pod("a", "x")).await.unwrap().is_some());
}

#[tokio::test]
async fn close_keeps_what_was_queued_ends_watches_and_refuses_the_rest() {
    let folder = folder_with_a_store().await;
    let store = open(folder.path()).await.unwrap();
    let mut watch = store.watch(&Range::all("pods"), Revision(2)).await.unwrap();
    let mut queued = store.create(pod("a", "y"), object("y", 1));
    // The writer's thread may be done with it at once.
    let done = (&mut queued).now_or_never();
    store.close().await.unwrap();
    let queued = match done {
        Some(written) => written.unwrap(),
        None => queued.await.unwrap(),
    };
    assert!(matches!(watch.next().await, Some(Err(StoreError::Unavailable(_)))));
    assert!(watch.next().await.is_none());
    let closed = Err(StoreError::Unavailable("the store was closed".to_owned()));
    assert_eq!(store.create(pod("a", "z"), object("z", 1)).await, closed);
    assert_eq!(store.revision().await.err(), closed.err());
    store.close().await.unwrap();
    let again = open(folder.path()).await.unwrap();
    assert_eq!(again.get(&pod("a", "y")).await.unwrap(), Some(queued));
}

#[tokio::test]
async fn store_that_is_dropped_keeps_everything_and_lets_go_by_itself() {
    let folder = folder_with_a_store().await;
    let store = open(folder.path()).await.unwrap();
    let mut watch = store.watch(&Range::all("pods"), Revision(2)).await.unwrap();
    let written = store.create(pod("a", "y"), object("y", 1)).await.unwrap();
    drop(store);
    assert_eq!(
        watch.next().await.unwrap().unwrap_err(),
        StoreError::Unavailable("the store was closed".to_owned())
    );
    let again = loop {
        match open(folder.path()).await {
            Ok(store) => break store,
            Err(FileError::Locked { .. }) => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(again.get(&pod("a", "y")).await.unwrap(), Some(written));
}

#[tokio::test]
async fn revisions_begin_at_the_given_start_and_continue_after_reopening() {
    let folder = folder_in_memory();
    let options = |start| FileOptions {
        start: Revision(start),
        ..FileOptions::default()
    };
    let store = FileStore::open(folder.path(), options(100)).await.unwrap();
    let created = store.create(pod("a", "x"), object("x", 1)).await.unwrap();
    let deleted = store.delete(&created.key, created.revision).await.unwrap();
    assert_eq!(deleted.revision, Revision(102));
    store.close().await.unwrap();
    let store = FileStore::open(folder.path(), options(7)).await.unwrap();
    let created = store.create(pod("a", "x"), object("x", 1)).await.unwrap();
    assert_eq!(
        created.revision,
        Revision(103),
        "the revision of a deletion is not given again"
    );
    let page = Page {
        at: Some(Revision(99)),
        ..Page::default()
    };
    let early = store.list(&Range::all("pods"), page).await.err();
    assert!(matches!(
        early,
        Some(StoreError::Expired {
            oldest: Revision(100),
            ..
        })
    ));
}

#[tokio::test]
async fn file_that_is_no_store_is_refused_and_left_alone() {
    let folder = folder_in_memory();
    let file = folder.path().join("store.redb");
    std::fs::write(&file, "kind: Config\n").unwrap();
    let (error, text) = refusal(folder.path()).await;
    assert!(matches!(error, FileError::NotAStore { .. }), "{error:?}");
    contains_all(
        &text,
        &[
            "store.redb",
            "kind: Con",
            "expected a redb file of this store",
            "move it away",
        ],
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"kind: Config\n");

    std::fs::write(&file, "").unwrap();
    let (error, text) = refusal(folder.path()).await;
    assert!(matches!(error, FileError::Damaged { .. }), "{error:?}");
    contains_all(&text, &["it is empty", "restore"]);

    std::fs::remove_file(&file).unwrap();
    let other = Database::create(&file).unwrap();
    let table: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
    let transaction = other.begin_write().unwrap();
    transaction.open_table(table).unwrap().insert("a", "b").unwrap();
    transaction.commit().unwrap();
    drop(other);
    let (error, text) = refusal(folder.path()).await;
    assert!(matches!(error, FileError::NotAStore { .. }), "{error:?}");
    contains_all(&text, &["a redb file of another program"]);

    let (error, text) = refusal(&file).await;
    assert!(matches!(error, FileError::NotAStore { .. }), "{error:?}");
    contains_all(&text, &["is not a folder"]);
}

#[tokio::test]
async fn other_formats_are_refused_with_both_numbers() {
    let folder = folder_with_a_store().await;
    let newer = FileOptions {
        content_format: 2,
        ..FileOptions::default()
    };
    let error = FileStore::open(folder.path(), newer).await.err().unwrap();
    assert!(
        matches!(
            error,
            FileError::OtherFormat {
                found: 1,
                expected: 2,
                ..
            }
        ),
        "{error:?}"
    );
    contains_all(&error.to_string(), &["content format 1", "this program reads 2"]);

    let file = Database::open(folder.path().join("store.redb")).unwrap();
    let meta: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
    let transaction = file.begin_write().unwrap();
    let two = 2_u64.to_le_bytes();
    transaction
        .open_table(meta)
        .unwrap()
        .insert("format", two.as_slice())
        .unwrap();
    transaction.commit().unwrap();
    drop(file);
    let (error, text) = refusal(folder.path()).await;
    assert!(
        matches!(
            error,
            FileError::OtherFormat {
                found: 2,
                expected: 1,
                ..
            }
        ),
        "{error:?}"
    );
    contains_all(&text, &["store format 2", "use a version of the program that reads 2"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn folder_that_may_not_be_written_is_refused() {
    // Even the superuser may not write here.
    let folder = Path::new("/sys/kernel/orangery");
    let (error, text) = refusal(folder).await;
    assert!(matches!(error, FileError::NotWritable { .. }), "{error:?}");
    contains_all(&text, &["cannot be written", "give this user the right"]);
}

#[tokio::test]
async fn a_missing_or_older_store_is_never_mistaken_for_a_new_one() {
    let folder = folder_with_a_store().await;
    let file = folder.path().join("store.redb");
    let old = std::fs::read(&file).unwrap();
    let store = open(folder.path()).await.unwrap();
    store.create(pod("a", "y"), object("y", 1)).await.unwrap();
    store.close().await.unwrap();
    let new = std::fs::read(&file).unwrap();

    std::fs::write(&file, &old).unwrap();
    let (error, text) = refusal(folder.path()).await;
    assert!(matches!(error, FileError::Damaged { .. }), "{error:?}");
    contains_all(
        &text,
        &["it is at revision 2", "expected revision 3", "remove the file `lock`"],
    );

    std::fs::remove_file(&file).unwrap();
    let (error, text) = refusal(folder.path()).await;
    assert!(matches!(error, FileError::Damaged { .. }), "{error:?}");
    contains_all(&text, &["it is missing", "lock speaks of"]);
    assert!(!file.exists());

    std::fs::write(&file, &new).unwrap();
    assert_eq!(
        open(folder.path()).await.unwrap().revision().await.unwrap(),
        Revision(3)
    );
}

#[tokio::test]
async fn a_store_that_was_not_finished_is_recreated() {
    let folder = folder_in_memory();
    std::fs::write(folder.path().join("lock"), "new 1\n").unwrap();
    std::fs::write(folder.path().join("store.redb.new"), "half").unwrap();
    let store = open(folder.path()).await.unwrap();
    assert_eq!(store.revision().await.unwrap(), Revision(1));
    assert!(!folder.path().join("store.redb.new").exists());
}
