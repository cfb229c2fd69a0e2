# SPDX-License-Identifier: Apache-2.0
"""The option table, --help, the man pages and the completions name the same things."""
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from sg import BIN, sandglass

MAN = pathlib.Path(__file__).resolve().parents[2] / "man"
TABLES = json.loads(sandglass("help", "--json").stdout)
COMMANDS = {command["name"]: command for command in TABLES["commands"]}
OPTIONS = {option["flag"]: option for option in TABLES["options"] if option["flag"]}
# What each page is about; `config show` takes the options of run and refers to them.
PAGES = {
    "sandglass-run.1": ["run", "shell"],
    "sandglass-template.1": [name for name in COMMANDS if name.startswith("template ")],
    "sandglass-doctor.1": [name for name in COMMANDS if name == "doctor"],
    "sandglass-serve.1": ["serve", "up", "down", "env"],
    "sandglass-tls.1": ["tls init"],
    "sandglass-client.1": ["ps", "create", "exec", "cp", "logs", "top", "pause", "resume", "kill", "rm", "stats",
                           "events", "snapshot", "snapshots list", "snapshots rm", "snapshots export", "snapshots import", "snapshots gc", "fork", "rollback", "tree",
                           "net log", "net explain", "net set", "forward"],
    "sandglass-parse.1": ["parse"],
    "sandglass-route.1": ["route"],
    "sandglass-hook.1": ["hook"],
    "sandglass-code.1": ["code", "repl"],
    "sandglass-task.1": ["task run", "swarm", "usage", "approve"],
    "sandglass-volume.1": [name for name in COMMANDS if name.startswith("volume ")],
    "sandglass-keys.1": [name for name in COMMANDS if name.startswith(("keys ", "orgs ", "secrets ", "audit "))],
}


def spellings(flags):
    """Every way in which --help and a page show these flags."""
    shown = {"--help", "-h"}
    for option in (OPTIONS[flag] for flag in flags):
        shown.add("--" + option["flag"])
        if option["letter"]:
            shown.add("-" + option["letter"])
        if option["words"] and not option["argument"]:
            shown.add("--no-" + option["flag"])
    return shown


def items(page):
    """{flag: paragraph} of the list of options of a page."""
    found = {}
    for item in re.split(r"^\.It ", (MAN / page).read_text(), flags=re.M)[1:]:
        head = item.split("\n", 1)[0]
        for long in re.findall(r"Fl Fl ([a-z-]+)", head):
            found["--" + long] = item
        for letter in re.findall(r"Fl ([A-Za-z]) ", head):
            found["-" + letter] = item
    return found


@pytest.mark.parametrize("page", [page for page, commands in PAGES.items() if commands])
def test_page_lists_exactly_the_options_of_its_commands(page):
    flags = {flag for name in PAGES[page] for flag in COMMANDS[name]["flags"]}
    assert set(items(page)) == spellings(flags)


def test_config_page_and_run_page_together_list_the_options_of_config_show():
    own = set(items("sandglass-config.1"))
    assert own <= spellings(COMMANDS["config show"]["flags"])
    assert own | set(items("sandglass-run.1")) == spellings(COMMANDS["config show"]["flags"])


def test_main_page_names_every_command():
    text = (MAN / "sandglass.1").read_text()
    missing = [name for name in COMMANDS if not re.search(rf"^\.It Cm {name}\b", text, re.M)]
    assert not missing


def test_run_page_names_every_default():
    page = items("sandglass-run.1")
    for flag in COMMANDS["run"]["flags"]:
        option = OPTIONS[flag]
        if option["argument"] and option["default"]:
            assert option["default"] in page["--" + flag], flag


def test_settings_page_lists_exactly_the_keys_and_variables():
    text = (MAN / "sandglass.toml.5").read_text()
    keys = {o["key"].removeprefix("run.") for o in TABLES["options"] if o["key"]}
    assert set(re.findall(r"^\.It Cm (\S+) No =", text, re.M)) == keys
    variables = {o["environment"] for o in TABLES["options"] if o["environment"]}
    assert set(re.findall(r"SANDGLASS_[A-Z_]+", text)) == variables | {"SANDGLASS_CONFIG"}


@pytest.mark.parametrize("page", sorted(p.name for p in MAN.glob("*.[15]")))
def test_page_is_clean(page):
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", page], cwd=MAN, text=True,
                              capture_output=True, timeout=20)
        assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_fits_a_screen_and_names_every_option(name):
    done = sandglass(*name.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert lines[0] == f"Usage: sandglass {name} {COMMANDS[name]['usage']}"
    assert len(lines[lines.index("Examples:") + 1:]) == 2
    start, end = lines.index("Options:"), lines.index("Examples:")
    shown = {flag for line in lines[start + 1:end]
             for flag in re.findall(r"(?<![\w-])(--?[a-zA-Z][a-z-]*)", line[:31])}
    assert shown == spellings(COMMANDS[name]["flags"])
    assert sandglass("help", *name.split()).stdout == done.stdout


def test_overview_names_every_command_and_fits_a_screen():
    done = sandglass()
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) <= 56
    for name, command in COMMANDS.items():
        group, _, verb = name.partition(" ")
        assert (re.search(rf"^  {name} +{re.escape(command['summary'])}$", done.stdout, re.M)
                or re.search(rf"^  {group} +.*: .*\b{verb}\b.*\.$", done.stdout, re.M))
    assert sandglass("--help").stdout == done.stdout


@pytest.fixture
def script(tmp_path):
    def write(shell):
        done = sandglass("completion", shell)
        assert (done.returncode, done.stderr) == (0, "")
        path = tmp_path / f"completion.{shell}"
        path.write_text(done.stdout)
        return path
    return write


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_written_and_its_shell_can_read_it(script, shell):
    path = script(shell)
    assert "sandglass" in path.read_text()
    if shutil.which(shell):
        done = subprocess.run([shell, "-n", path], capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, "")


def bash_completes(path, *words):
    typed = " ".join(f"'{word}'" for word in words)
    code = (f"source {path}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _sandglass; "
            'printf "%s\\n" "${COMPREPLY[@]}"')
    env = {"PATH": f"{pathlib.Path(BIN).parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "--norc", "-c", code], env=env, capture_output=True, text=True,
                          timeout=20)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands_flags_and_values(script):
    path = script("bash")
    assert bash_completes(path, "sandglass", "") == {name.split()[0] for name in COMMANDS}
    assert bash_completes(path, "sandglass", "config", "s") == {"show"}
    assert bash_completes(path, "sandglass", "run", "--mem") == {"--memory"}
    assert bash_completes(path, "sandglass", "run", "--quiet", "--no") == {"--no-tty"}
    assert bash_completes(path, "sandglass", "run", "--net", "") == {"none", "filtered", "open"}
    assert bash_completes(path, "sandglass", "run", "--net", "=", "o") == {"open"}
    assert bash_completes(path, "sandglass", "completion", "z") == {"zsh"}
    assert bash_completes(path, "sandglass", "run", "--memory", "") == set()
    assert "true" in bash_completes(path, "sandglass", "run", "--", "tru")
    everything = bash_completes(path, "sandglass", "run", "--")
    assert everything == {f for f in spellings(COMMANDS["run"]["flags"]) if f.startswith("--")}


def test_bash_completes_names_of_templates(script):
    path = script("bash")
    assert "host" in bash_completes(path, "sandglass", "run", "--template", "ho")
    assert "host" not in bash_completes(path, "sandglass", "template", "rm", "ho")


def test_bash_completes_files_where_files_are_meant(script):
    path = script("bash")
    start = str(path)[:-4]
    assert bash_completes(path, "sandglass", "template", "import", start) == {str(path)}
    assert bash_completes(path, "sandglass", "template", "import", "--fo") == {"--force"}
    assert bash_completes(path, "sandglass", "run", "--template", start) == {str(path)}


def test_bash_completes_the_command_of_run_and_then_files(script):
    path = script("bash")
    assert "printf" in bash_completes(path, "sandglass", "run", "prin")
    assert "printf" in bash_completes(path, "sandglass", "run", "--memory", "=", "1g", "-q", "prin")
    assert "printf" in bash_completes(path, "sandglass", "run", "--copy-in", "a", ":", "b", "prin")
    assert bash_completes(path, "sandglass", "run", "-m", "1g", "cat", str(path)[:-4]) == {str(path)}


def test_bash_completes_the_commands_after_help(script):
    path = script("bash")
    assert bash_completes(path, "sandglass", "help", "") == {name.split()[0] for name in COMMANDS}
    assert bash_completes(path, "sandglass", "help", "config", "") == {"show"}


def test_fish_completes_commands_flags_and_values(script):
    if not shutil.which("fish"):
        return
    path = script("fish")

    def completes(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"],
                              capture_output=True, text=True, timeout=20)
        return {entry.split("\t")[0] for entry in done.stdout.splitlines()}

    assert {name.split()[0] for name in COMMANDS} <= completes("sandglass ")
    assert "--memory" in completes("sandglass run --mem")
    assert completes("sandglass run --net ") == {"none", "filtered", "open"}
    assert completes("sandglass config ") == {"show"}
