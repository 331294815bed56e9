//! Tools `python` and `shell`: what a program may do, and what not.
//!
//! Where the machine does not allow namespaces, nothing may run; then only that is tested.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{World, answers, calls, results, task};

/// A variable of the test's environment, as the worker has secrets in its own.
const SECRET_FILE: &str = "secret.txt";

/// A world with one tool that runs `code` in the first turn.
async fn world(tool: &str, fields: Value, code: &str) -> World {
    let mut entry = json!({"name": tool, "policy": "allow"});
    entry.as_object_mut().expect("it is an object").extend(fields.as_object().cloned().unwrap_or_default());
    let replies = [calls([(tool, json!({"code": code}))]), answers(json!({"result": "done"}))];
    World::new(json!({"tools": [entry, "read_file", "write_file"]}), replies).await
}

/// The result of the program in a world.
async fn result_in(world: &World) -> Value {
    world.run(&task(json!({}))).await.outputs();
    results(&world.seen()).remove(0)
}

/// The result of shell commands; `None` where the machine cannot isolate them, and they were refused.
async fn shell(fields: Value, code: &str) -> Option<Value> {
    let result = result_in(&world("shell", fields, code).await).await;
    if result["error"].as_str().is_some_and(|error| error.contains("cannot be isolated")) {
        eprintln!("skipped: this machine does not allow namespaces");
        return None;
    }
    Some(result)
}

fn text<'a>(result: &'a Value, stream: &str) -> &'a str {
    result["data"][stream].as_str().unwrap_or_default()
}

#[tokio::test]
async fn programs_work_with_the_files_of_the_plan() {
    let code = "import csv, json, sys\nrows = list(csv.reader(open('in.csv')))\nopen('out.json', 'w').write(json.dumps(rows))\n\
                print(len(rows)); sys.exit(3)";
    let world = world("python", json!({}), code).await;
    let input = world.file("in.csv");
    std::fs::create_dir_all(input.parent().expect("it has a parent")).expect("a directory can be made");
    std::fs::write(&input, "a,b\n1,2\n").expect("a file can be written");
    let result = result_in(&world).await;
    if result["ok"] == false {
        assert!(result.to_string().contains("cannot be isolated"), "{result}");
        return;
    }
    assert_eq!(result["data"], json!({"exit_code": 3, "stdout": "2\n", "stderr": ""}));
    let written = std::fs::read_to_string(world.file("out.json")).expect("the program wrote it");
    assert_eq!(written, r#"[["a", "b"], ["1", "2"]]"#);
}

#[tokio::test]
async fn the_environment_has_no_secrets() {
    let Some(result) = shell(json!({}), "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'").await else { return };
    let known = ["PATH", "LANG", "HOME", "PWD", "PYTHONDONTWRITEBYTECODE", "SHLVL", "_"];
    let names = text(&result, "stdout").lines().filter_map(|line| line.split('=').next());
    let others: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(text(&result, "stdout").contains("HOME=/work"), "{result}");
    assert!(std::env::vars_os().count() > known.len(), "the test has more variables than the program");
}

#[tokio::test]
async fn there_is_no_way_out_of_the_workspace() {
    let code = "ln -s / root; ln -s ../.. up; ls -A / /tmp /work root up; cat $SECRET /etc/shadow /etc/passwd /root/.ssh/*; \
                echo x > /usr/x; echo x > ../x; mkdir /y; mount -t tmpfs x /tmp; \
                unshare --user --map-root-user --mount mount -o remount,bind,rw /usr; kill -9 -1; echo $$; ls /proc | grep -c '^[0-9]'";
    let world = world("shell", json!({}), code).await;
    let secret = world.dir.path().join(SECRET_FILE);
    std::fs::write(&secret, "sk-live-1").expect("a file can be written");
    let result = result_in(&world).await;
    if result["ok"] == false {
        assert!(result.to_string().contains("cannot be isolated"), "{result}");
        return;
    }
    let shown = text(&result, "stdout");
    assert!(!shown.contains("secret.txt") && !shown.contains("sk-live") && !shown.contains("files"), "{shown}");
    for line in ["x", "y"] {
        assert!(!shown.lines().any(|shown| shown == line), "{shown}");
    }
    let outside: Vec<_> =
        std::fs::read_dir(world.dir.path()).expect("it is there").flatten().map(|e| e.file_name()).collect();
    assert_eq!(outside.len(), 2, "{outside:?}");
    assert!(!std::path::Path::new("/usr/x").exists());
    assert!(text(&result, "stderr").contains("/etc/passwd"), "{result}");
}

#[tokio::test]
async fn the_network_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.set_nonblocking(true).expect("it can be set");
    let port = listener.local_addr().expect("it has an address").port();
    let code = format!(
        "import socket\nfor host in ['127.0.0.1', '1.1.1.1', '::1']:\n try:\n  socket.create_connection((host, {port}), 2); print('open')\n \
         except OSError as error:\n  print('closed')"
    );
    let result = result_in(&world("python", json!({}), &code).await).await;
    if result["ok"] == true {
        assert_eq!(text(&result, "stdout"), "closed\nclosed\nclosed\n", "{result}");
    } else {
        assert!(result.to_string().contains("cannot be isolated"), "{result}");
    }
    assert!(listener.accept().is_err(), "nobody called");
}

#[tokio::test]
async fn a_time_limit_kills_all_processes() {
    let code = "echo begun; (setsid sh -c 'while :; do echo x >> beat; sleep 0.05; done' &) ; trap '' TERM; sleep 600";
    let world = world("shell", json!({"timeout_ms": 1_500}), code).await;
    let result = result_in(&world).await;
    let error = result["error"].as_str().expect("it failed");
    if error.contains("cannot be isolated") {
        return;
    }
    assert!(error.contains("1.5 s") && error.contains("begun"), "{error}");
    assert_stopped(&world).await;
}

#[tokio::test]
async fn a_dropped_call_kills_all_processes() {
    let code = "(setsid sh -c 'while :; do echo x >> beat; sleep 0.05; done' &) ; sleep 600";
    let world = world("shell", json!({}), code).await;
    let step = task(json!({}));
    let beats = async {
        for _ in 0..200 {
            if world.file("beat").exists() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    };
    let begun = tokio::select! {
        ended = world.run(&step) => {
            assert!(results(&world.seen())[0].to_string().contains("cannot be isolated"), "{:?}", ended.result);
            return;
        }
        begun = beats => begun,
    };
    assert!(begun, "the program runs");
    assert_stopped(&world).await;
}

/// The file that a process of the program extends stops to grow.
async fn assert_stopped(world: &World) {
    let size = || std::fs::metadata(world.file("beat")).expect("the process wrote it").len();
    for _ in 0..100 {
        let before = size();
        tokio::time::sleep(Duration::from_millis(300)).await;
        if size() == before {
            return;
        }
    }
    panic!("a process of the program is alive");
}

#[tokio::test]
async fn a_fork_bomb_ends_at_its_limits() {
    let code = "bomb() { bomb | bomb & }; bomb; sleep 600";
    let Some(result) = shell(json!({"timeout_ms": 2_000, "processes_max": 16}), code).await else { return };
    assert!(result["error"].as_str().is_some_and(|error| error.contains("2 s")) || result["ok"] == true, "{result}");
    let code = "for i in $(seq 40); do sleep 5 & done; wait; echo all";
    let Some(result) = shell(json!({"processes_max": 16}), code).await else { return };
    assert!(!text(&result, "stdout").contains("all") && text(&result, "stderr").contains("fork"), "{result}");
}

#[tokio::test]
async fn output_memory_and_files_are_bounded() {
    let fields = json!({"output_bytes_max": 1_000, "memory_bytes_max": 64 << 20, "file_bytes_max": 1 << 20, "bytes_max": 3 << 20});
    let code = "yes | head -c 50000000; head -c 5000 /dev/zero >&2";
    let Some(result) = shell(fields.clone(), code).await else { return };
    let data = &result["data"];
    assert_eq!((&data["stdout_bytes"], &data["stderr_bytes"]), (&json!(50_000_006), &json!(5_000)), "{result}");
    assert_eq!(text(&result, "stdout").len(), 1_000);
    let code = "head -c 2000000 /dev/zero > big; ls -l big | awk '{print $5}'";
    let result = shell(fields.clone(), code).await.expect("it ran before");
    assert_eq!(text(&result, "stdout"), format!("{}\n", 1 << 20));
    let code = "while :; do i=$((i + 1)); head -c 1000000 /dev/zero > file$i; sleep 0.1; done";
    let result = shell(fields.clone(), code).await.expect("it ran before");
    assert!(result["error"].as_str().is_some_and(|error| error.contains("more than 3145728 bytes")), "{result}");
    let mut python = fields;
    python["output_bytes_max"] = json!(4_000);
    let result = result_in(&world("python", python, "x = bytearray(1 << 30)\nprint('much')").await).await;
    assert!(text(&result, "stderr").contains("MemoryError"), "{result}");
}

#[tokio::test]
async fn special_files_do_not_block_the_tools_for_files() {
    let replies = [
        calls([("shell", json!({"code": "mkfifo pipe; mkdir deep; mkfifo deep/pipe"}))]),
        calls([("read_file", json!({"path": "pipe"})), ("write_file", json!({"path": "deep/pipe", "text": "x"}))]),
        answers(json!({"result": "done"})),
    ];
    let settings = json!({"tools": [{"name": "shell", "policy": "allow"}, "read_file", "write_file"]});
    let world = World::new(settings, replies).await;
    world.run(&task(json!({}))).await.outputs();
    let results = results(&world.seen());
    if results[0]["ok"] == true {
        assert!(results[1..].iter().all(|result| result["ok"] == false), "{results:?}");
    }
}

#[tokio::test]
async fn without_isolation_limits_hold_all_the_same() {
    let code = "echo $HOME; pwd; env | cut -d = -f 1; ulimit -u; (sleep 600 &) ; exit 7";
    let world = world("shell", json!({"isolation": "none", "processes_max": 500}), code).await;
    let result = result_in(&world).await;
    let own = world.file("").canonicalize().expect("it is there").display().to_string();
    assert_eq!(result["data"]["exit_code"], 7, "{result}");
    assert!(text(&result, "stdout").starts_with(&format!("{own}\n{own}\n")), "{result}");
    assert!(!text(&result, "stdout").contains("CARGO"), "{result}");
}

#[tokio::test]
async fn a_program_makes_no_sockets_but_pairs_and_no_namespaces() {
    let code = "import ctypes, os, socket\n\
                libc = ctypes.CDLL(None, use_errno=True)\n\
                for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, 40):\n    \
                    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):\n        \
                        try: socket.socket(family, kind); print('socket', family, kind)\n        \
                        except OSError: pass\n\
                for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000, 0x80):\n    \
                    if libc.unshare(flag) == 0: print('namespace', flag)\n    \
                    if libc.syscall(56 if os.uname().machine == 'x86_64' else 220, flag | 17, 0, 0, 0, 0) > 0: print('clone', flag)\n\
                if libc.syscall(425, 8, 0) >= 0: print('io_uring')\n\
                a, b = socket.socketpair(); a.send(b'pairs work'); print(b.recv(99).decode())";
    let world = world("python", json!({}), code).await;
    let result = result_in(&world).await;
    if result["ok"] == false {
        assert!(result.to_string().contains("cannot be isolated"), "{result}");
        return;
    }
    assert_eq!(result["data"], json!({"exit_code": 0, "stdout": "pairs work\n", "stderr": ""}));
}

#[tokio::test]
async fn a_program_inherits_no_descriptors() {
    let secret = tempfile::NamedTempFile::new().expect("a file can be made");
    // As a shell that started the worker may have left it open: without close-on-exec.
    let inherited = rustix::io::dup(secret.as_file()).expect("it can be copied");
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).expect("its flags can be set");
    let Some(result) = shell(json!({}), "ls /proc/self/fd | tr '\\n' ' '").await else { return };
    // The fourth is that of `ls` itself.
    assert_eq!(text(&result, "stdout"), "0 1 2 3 ", "{result}");
    drop(inherited);
}
