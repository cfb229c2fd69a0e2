# SPDX-License-Identifier: Apache-2.0
"""Settings files and variables as `run` uses them: the file, the variable, the flag, in that order."""
import json

MIB = 1 << 20


def settings(runner, text, name="sandglass.toml"):
    (runner.home / name).write_text(text)
    (runner.home / name).chmod(0o644)
    return ["run", "--config", name]


def test_every_limit_can_come_from_the_file(root):
    run = settings(root, """
[run]
memory = "96m"
pids = 17
disk = "8m"
open_files = 73
hostname = "from-file"
workdir = "/srv/work"
env = ["A=1", "B=two words"]
timeout = "20s"
read_only = false
""")
    script = "ulimit -n; hostname; pwd; echo $A-$B"
    done = root.sandglass(*run, "--", "sh", "-c", script)
    assert done.stdout.splitlines() == ["73", "from-file", "/srv/work", "1-two words"], done.stderr
    done = root.sandglass(*run, "--json", "--", "true")
    assert json.loads(done.stdout)["disk_limit_bytes"] == 8 * MIB


def test_a_flag_wins_over_a_variable_and_that_over_the_file(root):
    run = settings(root, '[run]\nhostname = "file"\nopen_files = 80\nworkdir = "/a"\n')
    env = {"SANDGLASS_HOSTNAME": "variable", "SANDGLASS_OPEN_FILES": "90"}
    done = root.sandglass(*run, "--hostname", "flag", "--", "sh", "-c", "hostname; ulimit -n; pwd", env=env)
    assert done.stdout.split() == ["flag", "90", "/a"], done.stderr


def test_a_timeout_from_the_file_holds(root):
    run = settings(root, '[run]\ntimeout = "200ms"\n')
    assert root.sandglass(*run, "--", "sleep", "60", timeout=20).returncode == 124


def test_binds_and_copies_come_from_the_file(root):
    (root.home / "in").write_text("in")
    (root.home / "d").mkdir()
    (root.home / "d" / "f").write_text("bound")
    run = settings(root, f"""
[run]
bind = ["{root.home}/d:/mnt/d:ro"]
copy_in = ["in:."]
copy_out = ["out:out"]
""")
    done = root.sandglass(*run, "--", "sh", "-c", "cat in /mnt/d/f > out")
    assert done.returncode == 0, done.stderr
    assert (root.home / "out").read_text() == "inbound"


def test_a_file_in_the_directory_of_the_user_is_read_by_itself(user):
    folder = user.home / ".config" / "sandglass"
    folder.mkdir(parents=True)
    (folder / "sandglass.toml").write_text('[run]\nhostname = "own"\n')
    done = user.sandglass("run", "--", "hostname", env={"SANDGLASS_CONFIG": None})
    assert done.stdout == "own\n", done.stderr


def test_a_mistake_in_the_file_names_its_place_and_nothing_runs(root):
    for text, words in (('[run]\nmemroy = "1g"\n', ["sandglass.toml:2", "memroy"]),
                        ('[run]\npids = 1\n', ["sandglass.toml:2", "pids"]),
                        ('[run\n', ["sandglass.toml", "1:5"])):
        done = root.sandglass(*settings(root, text), "--", "echo", "ran")
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.count("\n") == 1
        for word in words:
            assert word in done.stderr, done.stderr


def test_the_template_can_come_from_the_file(root):
    tree = root.home / "tree"
    for name in ("usr", "dev", "proc", "sys", "tmp", "etc"):
        (tree / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (tree / name).symlink_to(f"usr/{name}")
    (tree / "etc" / "marker").write_text("tree")
    (tree / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    run = settings(root, f'[run]\ntemplate = "{tree}/"\nbind = ["/usr:/usr:ro"]\n')
    assert root.sandglass(*run, "--", "cat", "/etc/marker").stdout == "tree"


def test_a_quiet_run_keeps_its_notes_to_itself(root):
    run = settings(root, '[run]\nquiet = true\ntimeout = "100ms"\n')
    done = root.sandglass(*run, "--", "sleep", "60", timeout=20)
    assert (done.returncode, done.stderr) == (124, "")
