//! A process of `orangery` that can be killed and started again with the same arguments. It never outlives its owner.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tests_parts::{Outcome, Program};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::process::program;
use crate::{LOOK_PAUSE, PATIENCE};

/// A process of the production form.
pub struct Part {
    name: &'static str,
    /// Its log is `NAME.log` there.
    folder: PathBuf,
    arguments: Vec<String>,
    /// The port of `/readyz`, or the one that it listens on.
    health: Health,
    running: Option<Program>,
}

/// How a process shows that it works.
#[derive(Clone, Copy, Debug)]
pub enum Health {
    /// `/readyz` on this port answers 200.
    Ready(u16),
    /// This port takes connections.
    Listens(u16),
}

impl Part {
    /// Starts it.
    ///
    /// # Errors
    /// The program is missing.
    pub fn start(name: &'static str, folder: &Path, arguments: Vec<String>, health: Health) -> Outcome<Self> {
        let mut part = Self {
            name,
            folder: folder.to_owned(),
            arguments,
            health,
            running: None,
        };
        part.start_again()?;
        Ok(part)
    }

    /// How it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The number of its process.
    ///
    /// # Errors
    /// It does not run.
    pub fn process(&self) -> Outcome<u32> {
        let running = self.running.as_ref();
        running.map_or_else(|| Err(format!("{} does not run", self.name)), Program::process)
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Starts it as it was started before.
    ///
    /// # Errors
    /// The program is missing.
    pub fn start_again(&mut self) -> Outcome {
        self.kill();
        let started = Program::start_beside(self.name, &program(), &self.folder, &self.arguments)?;
        self.running = Some(started);
        Ok(())
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// It has ended; with the last lines of its log.
    pub fn check(&mut self) -> Outcome {
        match &mut self.running {
            Some(running) => running.check(),
            None => Err(format!("{} does not run", self.name)),
        }
    }

    /// Waits until it works: no watch reports that.
    ///
    /// # Errors
    /// It ends, or does not in time.
    pub async fn until_ready(&mut self) -> Outcome {
        let begun = Instant::now();
        loop {
            let answer = match self.health {
                Health::Ready(port) => ready(port).await,
                Health::Listens(port) => connect(port).await.map(drop),
            };
            let Err(why) = answer else {
                return Ok(());
            };
            self.check()?;
            if begun.elapsed() > PATIENCE {
                let output = self.running.as_ref().map(Program::log_end).unwrap_or_default();
                return Err(format!(
                    "{} is not ready within {PATIENCE:?}: {why}\n{output}",
                    self.name
                ));
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// All that it has logged, over all its starts.
    #[must_use]
    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.folder.join(format!("{}.log", self.name))).unwrap_or_default()
    }
}

async fn connect(port: u16) -> Outcome<TcpStream> {
    let connected = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await;
    connected.map_err(|error| format!("port {port}: {error}"))
}

/// Reads `/readyz` of a plain HTTP port.
async fn ready(port: u16) -> Outcome {
    let mut stream = connect(port).await?;
    let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    let exchanged = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_string(&mut answer).await
    };
    exchanged.await.map_err(|error| format!("port {port}: {error}"))?;
    match answer.starts_with("HTTP/1.1 200 ") {
        true => Ok(()),
        false => Err(answer.lines().last().unwrap_or_default().to_owned()),
    }
}
