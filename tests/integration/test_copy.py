# SPDX-License-Identifier: Apache-2.0
"""--copy-in and --copy-out: files and trees, odd names, what is refused, and what it leaves."""
import hashlib
import json
import os

import pytest

ODD = ["plain", "with space", "ümläut-日本", "new\nline", "-dash", "tab\there", "*", "'\"$"]


def run(runner, script, *options, **kw):
    return runner.sandglass("run", *options, "--", "sh", "-c", script, **kw)


def give(runner, path, text="text", mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    for place in (path, *path.parents):
        if place == runner.home or not place.is_relative_to(runner.home):
            break
        if runner.uid is not None:
            os.chown(place, runner.uid, runner.uid)
    return path


def test_a_file_goes_in_under_its_own_name_or_another(runner):
    give(runner, runner.home / "a.txt", "hello")
    done = run(runner, "cat a.txt /tmp/b.txt /tmp/a.txt; ls -l a.txt | cut -c1-10",
               "--copy-in", "a.txt:.", "--copy-in", "a.txt:/tmp/b.txt", "--copy-in", "a.txt:/tmp/")
    assert done.stdout == "hellohellohello-rw-r--r--\n", done.stderr


def test_what_was_copied_in_belongs_to_the_user_inside(runner):
    give(runner, runner.home / "a.sh", "#!/bin/sh\necho ran\n", 0o755)
    done = run(runner, "./a.sh && echo more >> a.sh && rm a.sh && echo mine", "--copy-in", "a.sh:.")
    assert done.stdout == "ran\nmine\n", done.stderr


def test_a_tree_goes_in_and_comes_out_the_same(runner):
    for name in ODD:
        give(runner, runner.home / "tree" / "sub" / name, name)
    give(runner, runner.home / "tree" / "run.sh", "#!/bin/sh\n", 0o755)
    done = run(runner, "true", "--copy-in", "tree:.", "--copy-out", "tree:back")
    assert done.returncode == 0, done.stderr
    back = runner.home / "back"
    assert sorted(p.name for p in (back / "sub").iterdir()) == sorted(ODD)
    assert all((back / "sub" / name).read_text() == name for name in ODD)
    assert (back / "run.sh").stat().st_mode & 0o777 == 0o755
    if runner.uid is not None:
        assert back.stat().st_uid == runner.uid


def test_a_single_file_with_an_odd_name_goes_both_ways(root):
    for name in ODD:
        give(root, root.home / name, name)
        done = run(root, "true", "--copy-in", f"./{name}:/tmp/x", "--copy-out", f"/tmp/x:./{name}.back")
        assert done.returncode == 0, (name, done.stderr)
        assert (root.home / f"{name}.back").read_text() == name


def test_results_come_out_even_when_the_command_fails(runner):
    done = run(runner, "echo part > out.csv; exit 3", "--copy-out", "out.csv:.")
    assert done.returncode == 3
    assert (runner.home / "out.csv").read_text() == "part\n"


def test_results_come_out_after_the_deadline(root):
    done = run(root, "echo part > out.csv; sleep 60", "--timeout", "300ms", "--copy-out", "out.csv:.",
               timeout=20)
    assert done.returncode == 124 and (root.home / "out.csv").read_text() == "part\n"


def test_a_target_directory_receives_and_an_existing_file_is_replaced(root):
    (root.home / "results").mkdir()
    give(root, root.home / "results" / "r", "old")
    done = run(root, "echo new > r", "--copy-out", "r:results", "--copy-out", "r:results/other")
    assert done.returncode == 0, done.stderr
    assert (root.home / "results" / "r").read_text() == "new\n"
    assert (root.home / "results" / "other").read_text() == "new\n"
    assert sorted(p.name for p in (root.home / "results").iterdir()) == ["other", "r"]


def test_a_link_in_the_way_is_replaced_and_not_followed(root):
    victim = give(root, root.home / "victim", "precious")
    (root.home / "r").symlink_to(victim)
    assert run(root, "echo evil > r", "--copy-out", "r:r").returncode == 0
    assert victim.read_text() == "precious" and not (root.home / "r").is_symlink()


def test_links_pipes_and_sockets_in_a_tree_stay_where_they_are(root):
    give(root, root.home / "tree" / "file")
    (root.home / "tree" / "link").symlink_to("/etc/shadow")
    os.mkfifo(root.home / "tree" / "pipe")
    done = run(root, "ls tree; cd tree; ln -s /etc/passwd made; mkfifo p", "--copy-in", "tree:.",
               "--copy-out", "tree:back", timeout=20)
    assert (done.returncode, done.stdout) == (0, "file\n"), done.stderr
    assert [p.name for p in (root.home / "back").iterdir()] == ["file"]


def test_a_named_link_is_followed_on_the_way_in(root):
    give(root, root.home / "real", "real")
    (root.home / "link").symlink_to("real")
    assert run(root, "cat link", "--copy-in", "link:.").stdout == "real"


def test_setuid_does_not_survive_the_way_out(root):
    run(root, "echo x > s; chmod 6755 s", "--copy-out", "s:s")
    assert (root.home / "s").stat().st_mode & 0o7777 == 0o755


def test_a_missing_source_is_named_and_nothing_runs(runner):
    done = run(runner, "echo ran", "--copy-in", "nosuch:.")
    assert (done.returncode, done.stdout) == (125, "")
    assert "'nosuch'" in done.stderr and "No such file" in done.stderr and done.stderr.count("\n") == 1


def test_a_source_that_may_not_be_read_is_an_error(user):
    path = give(user, user.home / "secret", mode=0o000)
    os.chown(path, 0, 0)
    done = run(user, "echo ran", "--copy-in", "secret:.")
    assert (done.returncode, done.stdout) == (125, "")
    assert "Permission denied" in done.stderr and "'secret'" in done.stderr


def test_a_place_inside_that_may_not_be_written_is_an_error(runner):
    give(runner, runner.home / "f")
    done = run(runner, "echo ran", "--copy-in", "f:/usr/bin/f")
    assert (done.returncode, done.stdout) == (125, "") and "/usr/bin/f" in done.stderr


def test_a_result_that_is_not_there_does_not_hide_the_commands_status(root):
    done = run(root, "exit 4", "--copy-out", "nosuch:.")
    assert done.returncode == 4 and "nosuch" in done.stderr
    done = run(root, "echo ok", "--copy-out", "nosuch:.")
    assert (done.returncode, done.stdout) == (1, "ok\n")
    done = root.sandglass("run", "--json", "--copy-out", "nosuch:.", "--", "true")
    result = json.loads(done.stdout)
    assert result["exit_code"] == 1 and "nosuch" in result["copy_out_error"]


def test_a_target_on_our_side_that_is_not_there_is_an_error(root):
    done = run(root, "echo x > r", "--copy-out", "r:no/such/dir/r")
    assert done.returncode == 1 and "no/such/dir" in done.stderr


@pytest.mark.parametrize("option", ["nocolon", ":x", "x:", ""])
def test_a_mapping_without_two_sides_is_a_usage_error(root, option):
    done = run(root, "true", "--copy-in", option)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_two_hundred_megabytes_go_both_ways(root):
    chunk = os.urandom(1 << 20)
    with open(root.home / "big", "wb") as file:
        for _ in range(200):
            file.write(chunk)
    done = run(root, "wc -c < big", "--memory", "1g", "--disk", "600m", "--copy-in", "big:.",
               "--copy-out", "big:back")
    assert (done.returncode, done.stdout.strip()) == (0, str(200 << 20)), done.stderr
    digests = [hashlib.sha256((root.home / n).read_bytes()).digest() for n in ("big", "back")]
    assert digests[0] == digests[1]


def test_a_file_that_does_not_fit_inside_is_an_error(root):
    (root.home / "big").write_bytes(b"x" * (8 << 20))
    done = run(root, "echo ran", "--disk", "4m", "--copy-in", "big:.")
    assert (done.returncode, done.stdout) == (125, "") and "No space left" in done.stderr


def test_a_deep_tree_and_many_files_go_both_ways(root):
    deep = root.home / "tree"
    for level in range(60):
        deep = deep / f"level{level}"
    give(root, deep / "leaf")
    for n in range(2000):
        (root.home / "tree" / f"file{n}").write_text(str(n))
    done = run(root, "find tree -type f | wc -l", "--copy-in", "tree:.", "--copy-out", "tree:back")
    assert done.stdout.strip() == "2001", done.stderr
    assert sum(len(files) for _, _, files in os.walk(root.home / "back")) == 2001
