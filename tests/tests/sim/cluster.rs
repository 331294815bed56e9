//! The processes of a run: started, stopped, killed and replaced.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_scheduler::Extras;

use crate::bugs;
use crate::environment::Environment;
use crate::executors::executors;
use crate::link::Link;
use crate::process::Process;
use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Scheduler,
    Worker,
}

enum Running {
    Scheduler(goalmill_scheduler::RunningScheduler),
    Worker(goalmill_worker::RunningWorker),
}

struct Member {
    role: Role,
    process: Arc<Process>,
    /// `None` until it has started.
    running: Arc<Mutex<Option<Running>>>,
}

/// Everything that runs.
pub struct Cluster {
    env: Arc<Environment>,
    settings: Settings,
    rng: Rng,
    members: Vec<Member>,
    started: u32,
    /// How many tasks a worker does at the same time.
    pub slots: RangeInclusive<u64>,
    /// Stopped or killed, but possibly still holding on to something.
    gone: Vec<Member>,
}

impl Cluster {
    pub fn new(env: &Arc<Environment>, rng: &Rng, settings: Settings) -> Self {
        let (env, rng) = (env.clone(), rng.split());
        env.auditor().window_min = settings.scheduler.window_min;
        env.auditor().ahead_ms_max = if env.faults.clocks { 10_000 } else { 0 };
        Self { env, settings, rng, members: Vec::new(), started: 0, slots: 1..=4, gone: Vec::new() }
    }

    /// Starts one to three processes of each role.
    pub fn start_some(&mut self, rng: &Rng) {
        for role in [Role::Scheduler, Role::Worker] {
            for _ in 0..rng.between(1, 3) {
                self.start(role);
            }
        }
    }

    pub fn start(&mut self, role: Role) {
        self.started += 1;
        let name = match role {
            Role::Scheduler => format!("scheduler-{}", self.started),
            Role::Worker => format!("worker-{}", self.started),
        };
        self.note(&format!("starts {name}"));
        let process = Arc::new(Process::new(name));
        let running = Arc::default();
        let (settings, random) = (self.settings_of(role, &process.name), self.rng.random());
        let clock = self.clock();
        tokio::spawn(run(role, settings, random, clock, self.env.clone(), process.clone(), Arc::clone(&running)));
        self.members.push(Member { role, process, running });
    }

    /// The clock of a machine.
    fn clock(&self) -> Clock {
        let clock = self.env.clock.clone();
        if !self.env.faults.clocks {
            return clock;
        }
        let ahead_ms = *self.rng.pick(&[-3_600_000, -2_000, 0, 2_000, 3_600_000]);
        Clock::from_fn(move || clock.now_ms().saturating_add_signed(ahead_ms))
    }

    fn settings_of(&self, role: Role, name: &str) -> Settings {
        let mut settings = self.settings.clone();
        match role {
            Role::Scheduler => settings.scheduler.id = name.into(),
            Role::Worker => {
                settings.worker.id = name.into();
                settings.worker.slots =
                    u32::try_from(self.rng.between(*self.slots.start(), *self.slots.end())).expect("a small number");
            }
        }
        settings
    }

    /// Stops a process for a while; it goes on as if nothing had been.
    pub fn pause_one(&mut self) {
        let ms = self.rng.between(100, 7_000);
        let member = self.rng.pick(&self.members);
        self.note(&format!("pauses {} for {ms} ms", member.process.name));
        member.process.pause(ms);
    }

    /// Kills a process; returns what it was.
    pub fn kill_one(&mut self) -> Role {
        let member = self.take_one();
        self.note(&format!("kills {}", member.process.name));
        member.process.kill();
        // Its timers need not go on: whatever it says is not heard any more.
        self.end(member)
    }

    /// Kills the first process of a role.
    pub fn kill_role(&mut self, role: Role) {
        let place = self.members.iter().position(|member| member.role == role).expect("one of them runs");
        let member = self.members.swap_remove(place);
        member.process.kill();
        self.end(member);
    }

    /// Ends a process as an operator would; returns what it was.
    pub fn stop_one(&mut self) -> Role {
        let member = self.take_one();
        self.note(&format!("stops {}", member.process.name));
        self.end(member)
    }

    /// Stops every process and starts another one in its place, as an operator does when the installation is gone.
    pub fn restart_all(&mut self) {
        self.note("restarts all");
        for member in std::mem::take(&mut self.members) {
            let role = self.end(member);
            self.start(role);
        }
    }

    /// Ends every pause, and sees to it that somebody works.
    pub fn calm(&mut self) {
        for member in self.members.iter().chain(&self.gone) {
            member.process.resume();
        }
        for role in [Role::Scheduler, Role::Worker] {
            if !self.members.iter().any(|member| member.role == role) {
                self.start(role);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// All stand still, as when the server is away.
    pub fn pause_all(&self, ms: u64) {
        self.members.iter().chain(&self.gone).for_each(|member| member.process.pause(ms));
    }

    pub fn note(&self, what: &str) {
        let at_ms = self.env.at_ms();
        self.env.trace().note(format_args!("{at_ms} * {what}"));
    }

    fn take_one(&mut self) -> Member {
        let place = self.rng.between(0, self.members.len() as u64 - 1);
        self.members.swap_remove(usize::try_from(place).expect("a small number"))
    }

    fn end(&mut self, member: Member) -> Role {
        let role = member.role;
        let running = member.running.lock().expect("nobody panics with it").take();
        match running {
            Some(Running::Scheduler(running)) => drop(tokio::spawn(running.stop())),
            Some(Running::Worker(running)) => drop(tokio::spawn(async move { running.drain().await })),
            None => member.process.kill(),
        }
        self.gone.push(member);
        role
    }
}

/// Starts a process, as often as it takes.
async fn run(
    role: Role,
    settings: Settings,
    random: goalmill_common::random::Random,
    clock: Clock,
    env: Arc<Environment>,
    process: Arc<Process>,
    slot: Arc<Mutex<Option<Running>>>,
) {
    let broker = Arc::new(Link::new(&env, &process));
    loop {
        let (broker, clock, random) = (broker.clone(), clock.clone(), random.clone());
        let started = match role {
            Role::Scheduler => {
                let options =
                    goalmill_scheduler::SchedulerOptions { settings: settings.clone(), broker, clock, random };
                let extras = Extras { engine: bugs::engine(), ..Extras::default() };
                goalmill_scheduler::start_with(options, extras).await.map(Running::Scheduler).ok()
            }
            Role::Worker => {
                let (settings, limits) = (settings.worker.clone(), settings.limits.clone());
                let executors = executors(&env);
                let options = goalmill_worker::WorkerOptions {
                    settings,
                    limits,
                    broker,
                    clock,
                    random,
                    executors,
                    kinds: Default::default(),
                };
                goalmill_worker::start(options).await.map(Running::Worker).ok()
            }
        };
        if let Some(running) = started {
            *slot.lock().expect("nobody panics with it") = Some(running);
            return;
        }
        if process.is_killed() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
