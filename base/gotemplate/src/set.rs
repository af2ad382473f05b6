//! Sets of templates as the caller uses them: a text is read and compiled into one, and a template of one is executed.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use crate::environment::error::{Error, ExecError, Fault};
use crate::environment::limits::Limits;
use crate::run::Machine;
use crate::syntax::parse;
use crate::text::quote::quoted;
use crate::value::Value;
use crate::value::function::{Functions, Shared};
use crate::value::template::{MissingKey, Program, Set, Template};

impl Set {
    /// A set without templates. Errors name the set by `name`.
    pub fn new(name: &str, functions: Arc<Functions>, missing_key: MissingKey) -> Self {
        Self {
            name: name.into(),
            functions,
            missing_key,
            programs: HashMap::new(),
        }
    }

    /// Reads a text: a template of that name, which is given back, and those that it defines. One that was there before
    /// is replaced, unless the new one holds nothing but spaces.
    ///
    /// # Errors
    /// The text is no template: Go's message, with name and line. No template of the text is taken over then.
    pub fn parse(&mut self, name: &str, text: &[u8]) -> Result<Template, Error> {
        let functions = Arc::clone(&self.functions);
        let parsed = parse(name, text.into(), &|name| functions.get(name).is_some()).map_err(Error::Parse)?;
        let tree = Arc::new(parsed.tree);
        let mut own = None;
        for (defined, root) in parsed.templates {
            let program = Program::new(defined, Arc::clone(&tree), root, Arc::clone(&functions));
            let program = Arc::new(program);
            if *program.name == *name.as_bytes() {
                own = Some(Template(Arc::clone(&program)));
            }
            if !program.is_empty || !self.programs.contains_key(&program.name) {
                self.programs.insert(program.name.clone(), program);
            }
        }
        // A text has a template of its own, if only an empty one.
        own.ok_or_else(|| Error::Parse(format!("template: {name}: there is no template")))
    }

    /// How many templates there are.
    pub fn len(&self) -> usize {
        self.programs.len()
    }

    /// Whether there is no template.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// The template of that name.
    ///
    /// # Errors
    /// There is none: Go's message.
    pub fn template(&self, name: &[u8]) -> Result<Template, Fault> {
        self.program(name).map(Template).map_err(Fault::Message)
    }

    /// Executes a template. Maps of `data` into which it puts lists or maps are empty afterwards.
    ///
    /// # Errors
    /// There is no such template, it fails, or a limit is met: Go's message, with name, line, column and the piece of the
    /// template at fault.
    pub fn render(self: &Arc<Self>, name: &str, data: Value, context: &mut Context<'_>) -> Result<Vec<u8>, Error> {
        self.render_among(name, data, context, &Shared::default())
    }

    /// Executes a template as one of several that share their values and their limit on steps.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub fn render_among(
        self: &Arc<Self>,
        name: &str,
        data: Value,
        context: &mut Context<'_>,
        shared: &Shared,
    ) -> Result<Vec<u8>, Error> {
        let program = self.program(name.as_bytes());
        let program = program.map_err(|why| Error::Exec(ExecError::new(why, Vec::new())))?;
        Machine::new(&context.limits, context.host, shared).run(self, program, data)
    }

    /// The template of that name, or Go's error if there is none.
    fn program(&self, name: &[u8]) -> Result<Arc<Program>, String> {
        self.get(name).cloned().ok_or_else(|| {
            format!(
                "template: no template {} associated with template {}",
                quoted(name),
                quoted(&self.name)
            )
        })
    }
}

/// What goes with an execution: its limits, and what the functions of the caller need.
pub struct Context<'h> {
    /// The limits.
    pub limits: Limits,
    /// What functions find in their [`crate::Scope`].
    pub host: &'h mut dyn Any,
}
