//! Templates as data: a set, its programs, and the operations of a stack machine that they are compiled to. Variables and the
//! dot are slots, functions are resolved, and each operation that can fail knows the node that Go's error would show. It
//! compiles and executes nothing: `compile`, `run` and `set` do.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::Value;
use super::function::{Function, Functions};
use crate::syntax::{NodeId, Tree};
use crate::text::Str;

/// What a key is that a map does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// Nothing: prints `<no value>`
    #[default]
    Default,
    /// The zero of the map's type: of `interface {}` an interface that holds nothing. What Helm sets.
    Zero,
    /// An error. What Helm sets when it is to be strict.
    Error,
}

/// A template of a set.
#[derive(Clone, Debug)]
pub struct Template(pub(crate) Arc<Program>);

/// Templates by name, read and compiled once and executed any number of times, also by several threads at once.
#[derive(Clone, Debug)]
pub struct Set {
    pub(crate) name: Str,
    pub(crate) functions: Arc<Functions>,
    pub(crate) missing_key: MissingKey,
    pub(crate) programs: HashMap<Str, Arc<Program>>,
}

impl Set {
    /// The name that errors give the set.
    pub fn name(&self) -> &Str {
        &self.name
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Program>> {
        self.programs.get(name)
    }
}

/// A template, compiled when it is executed for the first time: charts have many that they never execute.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: Str,
    pub(crate) tree: Arc<Tree>,
    /// Whether it holds nothing but spaces.
    pub(crate) is_empty: bool,
    pub(crate) root: NodeId,
    pub(crate) functions: Arc<Functions>,
    pub(crate) code: OnceLock<Code>,
}

impl Program {
    pub(crate) fn new(name: Str, tree: Arc<Tree>, root: NodeId, functions: Arc<Functions>) -> Self {
        Self {
            name,
            is_empty: tree.is_empty(root),
            tree,
            root,
            functions,
            code: OnceLock::new(),
        }
    }
}

/// What is executed.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    pub(crate) slots: u32,
}

/// A variable's place in the frame of a template.
pub(crate) type Slot = u32;
/// An operation's place in its program.
pub(crate) type Target = u32;

/// The slot of `$`.
pub(crate) const ROOT: Slot = 0;
/// The slot of the dot that a template begins with.
pub(crate) const DOT: Slot = 1;

/// Which node an error shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// This one
    Node(NodeId),
    /// The one that was evaluated last, which depends on the argument that decided `and` or `or`
    Last,
}

/// An operation. "Pushes" and "pops" are about the stack of values.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Writes text of the template
    Text(u32, u32),
    /// Pops and writes
    Print,
    /// Pushes a slot
    Load(Slot),
    /// Pushes the first of these slots that is set
    LoadFirst(Arc<Unsure>, At),
    /// Pushes a constant
    Constant(Value),
    /// Replaces the interface on top by what it holds
    Unwrap,
    /// Replaces the top by nil if it is in an `interface {}`: `slice` takes no such index
    ShowWrapped,
    /// Stores the top in a slot, and leaves it on the stack
    Store(Slot),
    /// Stores the top in the first of these slots that is set, and leaves it on the stack
    StoreFirst(Arc<Unsure>, At),
    /// Unsets slots from one up to another
    Clear(Slot, Slot),
    Pop,
    /// Drops what lies below the top
    DropUnder,
    /// Moves what lies so many below the top to the top
    Rotate(u32),
    /// Pops and goes on elsewhere if it is not true
    JumpUnless(Target),
    Jump(Target),
    /// Leaves the top and goes on elsewhere if its truth is this; pops it otherwise
    ShortCircuit(bool, Target, At),
    /// Records the node that was evaluated last
    Mark(At),
    /// Copies a slot to another
    Copy(Slot, Slot),
    /// Pops a receiver, pushes the field of its field and so on
    Fields(Arc<[String]>, At),
    /// Pops a receiver and finds its method, for which arguments follow
    Bind(Arc<Binding>, At),
    /// Checks the top against the type of the bound method's parameter
    ValidateBound(u32, At),
    /// Pushes a constant as the bound method's parameter wants it
    ConstantBound(NodeId, u32),
    /// Pops so many arguments, calls the bound method
    CallBound(u32, At),
    /// Checks the top against the type of a function's parameter
    Validate(Arc<Function>, u32, At),
    /// Pops so many arguments, calls
    Call(Arc<Function>, u32, At),
    /// Fails if there is no such template
    CheckTemplate(Str, At),
    /// Pops, executes a template on it
    Template(Str),
    /// Pops what is ranged over; goes on elsewhere if there is nothing
    RangeStart {
        has_two: bool,
        otherwise: Target,
        at: At,
    },
    /// The next element to a slot; goes on elsewhere after the last
    RangeNext(Slot, Target),
    /// Pushes the index of the element
    RangeIndex,
    /// Leaves the innermost range
    RangeEnd,
    /// An error
    Fail(Arc<str>, At),
    /// A place for an operation that is patched in later
    Nothing,
    /// The end of the template
    End,
}

/// Variables of one name of which the innermost may not be set, innermost first.
#[derive(Debug)]
pub(crate) struct Unsure {
    pub(crate) name: String,
    pub(crate) slots: Vec<Slot>,
}

/// A field with arguments.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    /// Arguments that are written
    pub(crate) written: usize,
    pub(crate) is_piped: bool,
    /// Where to go on if there is no receiver
    pub(crate) skip: OnceLock<Target>,
}
