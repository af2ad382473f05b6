//! What a template is compiled to: operations of a stack machine. Variables and the dot are slots, functions are
//! resolved, and each operation that can fail knows the node that Go's error would show.

use std::sync::{Arc, OnceLock};

use crate::function::{Function, Functions};
use crate::syntax::{NodeId, Tree};
use crate::text::Str;
use crate::value::Value;

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
    /// The one that was looked at last, which depends on the way that `and` and `or` took
    Last,
}

/// An operation. "Pushes" and "pops" are about the stack of values.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Writes text of the template
    Text(u32, u32),
    /// Pops and writes
    Print(At),
    /// Pushes a slot
    Load(Slot),
    /// Pushes the first of these slots that is set
    LoadFirst(Arc<Unsure>, At),
    /// Pushes a constant
    Constant(Value),
    /// What an interface holds
    Unwrap,
    /// Shows the top as the `interface {}` that it stands behind, if it does
    ShowWrapped,
    /// Keeps the top in a slot, and leaves it
    Store(Slot),
    /// Keeps the top in the first of these slots that is set, and leaves it
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
    /// What was looked at last
    Mark(At),
    /// A slot to another
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
    /// Looks whether there is a template
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
    /// A place that a later operation was to fill
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

/// A template, compiled when it is executed for the first time: charts bring many that they never execute.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: Str,
    pub(crate) tree: Arc<Tree>,
    /// Whether it holds nothing but spaces.
    pub(crate) is_empty: bool,
    root: NodeId,
    functions: Arc<Functions>,
    code: OnceLock<Code>,
}

/// What is executed.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    pub(crate) slots: u32,
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

    pub(crate) fn code(&self) -> &Code {
        let compiled = || super::compile(&self.tree, self.root, &self.functions);
        self.code.get_or_init(compiled)
    }
}
