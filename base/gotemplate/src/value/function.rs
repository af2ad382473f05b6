//! Functions that templates call: their names, the types of their parameters and what they do; and what executions share.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::collections::{Map, WeakMap};
use super::template::{Set, Template};
use super::{Type, Value};
use crate::environment::error::{Fault, LimitError, PrintError};
use crate::environment::host::Place;
use crate::environment::limits::{BYTES_PER_STEP, FRAMES_PER_STEP, Limits};
use crate::syntax::NodeId;
use crate::text::Str;

/// A function with its signature, against which calls are checked when they are executed, as in Go.
pub struct Function {
    name: String,
    params: Vec<Type>,
    rest: Option<Type>,
    pub(crate) body: Body,
}

/// What a function does.
pub(crate) enum Body {
    /// Computes a value
    Plain(Box<Plain>),
    /// Executes a template, whose text is the value
    Rendering(Box<Rendering>),
    /// `and`, which skips the arguments behind the one that decides
    And,
    /// `or`, likewise
    Or,
    /// `slice`, whose indexes may not be in an `interface {}`
    Slice,
    /// `call`, which also gets the text of its function
    Call,
    /// A method that Go cannot call, with Go's error
    Uncallable(String),
}

type Plain = dyn Fn(&mut Scope<'_>, &[Value]) -> Result<Value, Fault> + Send + Sync;
type Rendering = dyn Fn(&mut Scope<'_>, &[Value]) -> Result<Render, Fault> + Send + Sync;

/// What a function sees of the execution that calls it.
pub struct Scope<'a> {
    /// The limits that hold.
    pub limits: &'a Limits,
    /// The set whose template calls the function.
    pub set: &'a Arc<Set>,
    /// The host of the execution: [`crate::Context::host`].
    pub host: &'a mut dyn Any,
    pub(crate) executed: &'a dyn Executed,
    /// Where the function is called
    pub(crate) node: Option<NodeId>,
    pub(crate) shared: &'a Shared,
}

/// The templates that are being executed.
pub(crate) trait Executed {
    /// How many templates of that name a function of that name has executed.
    fn count(&self, function: &str, template: &[u8]) -> usize;
    /// How many templates there are.
    fn depth(&self) -> usize;
    /// The place of `node`, which the innermost template executes; inside `tpl` the place of the call of `tpl`.
    fn place(&self, node: Option<NodeId>) -> Option<Place<'_>>;
}

impl<'a> Scope<'a> {
    /// How many templates of that name a function of that name is executing.
    ///
    /// # Errors
    /// The search takes more steps than are left.
    pub fn executing(&self, function: &str, template: &[u8]) -> Result<usize, Fault> {
        self.spend(self.executed.depth() / FRAMES_PER_STEP)?;
        Ok(self.executed.count(function, template))
    }

    /// Where the function is called, if it is known.
    ///
    /// # Errors
    /// The search takes more steps than are left.
    pub(crate) fn place(&self) -> Result<Option<Place<'a>>, Fault> {
        self.spend(self.executed.depth() / FRAMES_PER_STEP)?;
        Ok(self.executed.place(self.node))
    }

    /// Counts work as so many steps of the execution: to be called before the work is done. The texts of the arguments and the
    /// size of the value are counted by the caller.
    ///
    /// # Errors
    /// Fewer steps are left.
    pub fn spend(&self, steps: usize) -> Result<(), Fault> {
        let all = self.shared.add_steps(u64::try_from(steps).unwrap_or(u64::MAX));
        let steps_max = self.limits.steps_max;
        if all > steps_max {
            return Err(Fault::Limit(LimitError::Steps(steps_max)));
        }
        Ok(())
    }

    /// Counts the reading or writing of so many bytes.
    ///
    /// # Errors
    /// As [`Self::spend`].
    pub fn spend_bytes(&self, bytes: usize) -> Result<(), Fault> {
        self.spend(bytes / BYTES_PER_STEP)
    }

    /// Refuses a string that would be longer than the limit: to be called before it is made.
    ///
    /// # Errors
    /// It would be longer.
    pub fn check_length(&self, bytes: usize) -> Result<(), Fault> {
        let bytes_max = self.limits.string_bytes_max;
        if bytes > bytes_max {
            return Err(PrintError::TooLong { bytes_max }.into());
        }
        Ok(())
    }
}

/// The steps and the changed maps of executions that share their values. When it is dropped, it empties the maps into which
/// templates have put lists or maps: one that holds itself would never be freed.
#[derive(Debug, Default)]
pub struct Shared {
    steps: Cell<u64>,
    changed: RefCell<Vec<WeakMap>>,
}

impl Shared {
    /// The steps so far, those of functions included.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub(crate) fn set_steps(&self, steps: u64) {
        self.steps.set(steps);
    }

    /// Counts more steps. Returns how many there are now.
    pub(crate) fn add_steps(&self, more: u64) -> u64 {
        let all = self.steps.get().saturating_add(more);
        self.steps.set(all);
        all
    }

    /// Puts a value into a map that templates may already have put elsewhere.
    pub(crate) fn change(&self, map: &Map, key: Str, value: Value) {
        if matches!(value, Value::List(_) | Value::Map(_)) {
            let mut changed = self.changed.borrow_mut();
            if changed.last().is_none_or(|last| !last.is(map)) {
                changed.push(map.downgrade());
            }
        }
        map.set(key, value);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        Map::dismantle(self.changed.get_mut().iter().filter_map(WeakMap::upgrade));
    }
}

/// A template that a function has executed for its value.
pub struct Render {
    pub(crate) set: Arc<Set>,
    pub(crate) template: Template,
    pub(crate) data: Value,
    pub(crate) then: After,
    pub(crate) context: String,
    pub(crate) cost: usize,
}

/// Makes the function's value of the text that the template has written.
pub(crate) type After = fn(Vec<u8>) -> Value;

impl Render {
    /// A template of a set, executed on some data. `then` makes the function's value of the text.
    pub fn new(set: Arc<Set>, template: Template, data: Value, then: fn(Vec<u8>) -> Value) -> Self {
        Self {
            set,
            template,
            data,
            then,
            context: String::new(),
            cost: 0,
        }
    }

    /// Sets what is put before an error of the template.
    #[must_use]
    pub fn in_context(mut self, context: String) -> Self {
        self.context = context;
        self
    }

    /// Sets how many steps it took to make the template.
    #[must_use]
    pub fn costing(mut self, steps: usize) -> Self {
        self.cost = steps;
        self
    }
}

impl Function {
    /// A function of so many parameters.
    pub fn new(
        name: &str,
        params: impl Into<Vec<Type>>,
        body: impl Fn(&mut Scope<'_>, &[Value]) -> Result<Value, Fault> + Send + Sync + 'static,
    ) -> Self {
        Self::with_body(name, params.into(), None, Body::Plain(Box::new(body)))
    }

    /// A function that takes any number of values of a type after its parameters.
    pub fn variadic(
        name: &str,
        params: impl Into<Vec<Type>>,
        rest: Type,
        body: impl Fn(&mut Scope<'_>, &[Value]) -> Result<Value, Fault> + Send + Sync + 'static,
    ) -> Self {
        Self::with_body(name, params.into(), Some(rest), Body::Plain(Box::new(body)))
    }

    /// A function whose value is the text of a template.
    pub fn rendering(
        name: &str,
        params: impl Into<Vec<Type>>,
        body: impl Fn(&mut Scope<'_>, &[Value]) -> Result<Render, Fault> + Send + Sync + 'static,
    ) -> Self {
        Self::with_body(name, params.into(), None, Body::Rendering(Box::new(body)))
    }

    pub(crate) fn with_body(name: &str, params: Vec<Type>, rest: Option<Type>, body: Body) -> Self {
        Self {
            name: name.to_owned(),
            params,
            rest,
            body,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the argument at that place.
    pub(crate) fn param(&self, at: usize) -> &Type {
        self.params.get(at).or(self.rest.as_ref()).unwrap_or(&Type::Any)
    }

    /// Go's error for a number of arguments, the last of which may come from a pipe.
    pub(crate) fn check_count(&self, written: usize, is_piped: bool) -> Result<(), String> {
        let given = written + usize::from(is_piped);
        let wanted = self.params.len();
        let name = &self.name;
        match self.rest {
            Some(_) if given < wanted => Err(format!(
                "wrong number of args for {name}: want at least {wanted} got {written}"
            )),
            None if given != wanted => Err(format!("wrong number of args for {name}: want {wanted} got {given}")),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The functions that templates may call, beside those that Go itself has.
#[derive(Clone, Debug)]
pub struct Functions(pub(crate) HashMap<String, Arc<Function>>);

impl Functions {
    /// Adds a function, in place of one of that name.
    pub fn add(&mut self, function: Function) {
        self.0.insert(function.name.clone(), Arc::new(function));
    }

    /// The function of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Function>> {
        self.0.get(name)
    }
}
