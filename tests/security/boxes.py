# SPDX-License-Identifier: Apache-2.0
"""Sandboxes to attack, and the register of what protects them.

An attack is a function that takes a Box and returns the set of what it achieved; its test says that
the set is empty. `@held_by(switches, opens)` puts it into the register: with these protections
switched off, it must achieve `opens` (test_protection_matters.py). So every test is known to fail
when the thing that it tests is gone.
"""
import dataclasses
import json
import pathlib
import subprocess

import sg

EXIT_BROKEN = 99
# who starts it, who one is inside, in which template: every pair of these occurs
KINDS = [("root", "user", "host"), ("root", "root", "host"), ("root", "root", "directory"),
         ("ordinary", "root", "host"), ("ordinary", "user", "directory")]


def name_of(kind):
    by, inside, template = kind
    return f"by-{by}-as-{inside}-in-{template}"


@dataclasses.dataclass(frozen=True)
class Kit:
    folder: pathlib.Path
    program: pathlib.Path
    template: pathlib.Path


def make_template(folder):
    """The smallest root: names for two users, and files to play tricks on."""
    for name in ("etc", "home/user", "root", "var/tmp", "run", "data/sub"):
        (folder / name).mkdir(parents=True)
    (folder / "var/tmp").chmod(0o1777)
    (folder / "data").chmod(0o777)
    (folder / "data/sub").chmod(0o777)
    (folder / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n"
                                       "user:x:1000:1000::/home/user:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
    for name in ("gone", "kept", "raced", "linked", "sub/file"):
        (folder / "data" / name).write_text(f"{name} of the layer\n")
        (folder / "data" / name).chmod(0o666)
    return folder


class Report:
    """What an attack said: see attacks/attack.h."""

    def __init__(self, done):
        self.done = done
        self.got, self.held, self.said = set(), {}, {}
        for line in done.stdout.splitlines():
            verb, _, rest = line.strip().partition(" ")
            name, _, value = rest.partition(" ")
            if verb == "got":
                self.got.add(name)
            elif verb == "held":
                self.held[name] = value
            elif verb == "said":
                self.said.setdefault(name, []).append(value)
        was_tried = self.got or self.held or self.said
        assert done.returncode != EXIT_BROKEN and was_tried, \
            f"the attack did not take place: status {done.returncode}, {done.stdout!r}, {done.stderr!r}"

    def number(self, name):
        return int(self.said[name][0])


class Box:
    """One kind of sandbox. `switches` takes protections away."""

    def __init__(self, runner, kit, inside="user", template="host", switches=None):
        self.runner, self.kit = runner, kit
        self.inside, self.template, self.switches = inside, template, switches
        self.is_rootless = not runner.is_root

    def argv(self, command, options, program=None):
        where = [] if self.template == "host" else ["--template", f"{self.kit.template}/"]
        return [program or (sg.SWITCHED_BIN if self.switches else sg.BIN), "run", "--user",
                self.inside, *where, "--bind", f"{self.kit.program}:/attack:ro", *options, "--",
                *command]

    def environment(self, env):
        return {**({"SANDGLASS_TEST_SWITCHES": self.switches} if self.switches else {}), **(env or {})}

    def run(self, *command, options=(), env=None, **kw):
        return self.runner.command(*self.argv(command, options), env=self.environment(env), **kw)

    def start(self, *command, options=(), env=None, **kw):
        """In the background; the caller ends it."""
        return self.runner.popen(*self.argv(command, options), env=self.environment(env), **kw)

    def attack(self, *words, **kw):
        return Report(self.run("/attack", *words, **kw))

    def start_attack(self, *words, **kw):
        """In the background, known to be under way."""
        kw.setdefault("stdout", subprocess.PIPE)
        process = self.start("/attack", *words, text=True, **kw)
        assert process.stdout.readline(), "the attack did not take place"
        return process

    def result(self, *words, options=(), **kw):
        """What --json says about an attack."""
        done = self.run("/attack", *words, options=["--json", *options], **kw)
        assert done.stdout, f"status {done.returncode}: {done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])


@dataclasses.dataclass(frozen=True)
class Protection:
    attack: object
    switches: str
    opens: frozenset
    inside: str
    template: str
    needs: tuple

    def __str__(self):
        return self.attack.__name__


PROTECTIONS = []


def held_by(switches, opens, inside="root", template="host", needs=()):
    """Registers an attack: `switches` off, it must achieve `opens`. `needs`: fixtures it takes."""
    def register(attack):
        PROTECTIONS.append(Protection(attack, switches, frozenset(opens), inside, template, needs))
        return attack
    return register
