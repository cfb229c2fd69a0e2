# SPDX-License-Identifier: Apache-2.0
"""R and Java, in the larger template that has them."""
import base64
import os

import built_template
import pytest
from service import Box, Service

LANGUAGES = ("r", "java")


@pytest.fixture(scope="module")
def box():
    if os.getuid() != 0:
        pytest.skip("needs root")
    try:
        service = Service(pool=1, template="code-interpreter-full").__enter__()
    except built_template.Unavailable as why:
        pytest.skip(f"no template: {why}")
    service.wait_parked()
    made = Box(service.operator)
    yield made
    made.destroy()
    service.__exit__(None, None, None)


def run(box, language, code, **more):
    return box.client.post(f"{box.path}/code", {"code": code, "language": language, **more}, expect=200)


@pytest.mark.parametrize("language, cells, text", [
    ("r", ["x <- 20", "f <- function(n) 2 * n", "f(x) + 2"], "[1] 42"),
    ("java", ["int x = 20;", "int f(int n) { return 2 * n; }", "f(x) + 2"], "42"),
])
def test_a_context_remembers(box, language, cells, text):
    for cell in cells:
        done = run(box, language, cell)
        assert not done.get("error"), done
    assert [row["text"] for row in done["results"]] == [text], done


@pytest.mark.parametrize("language, code, stdout, stderr", [
    ("r", "cat('grün\\n'); message('to the other')", "grün\n", "to the other\n"),
    ("r", "system('echo from a child')", "from a child\n", ""),
    ("java", "System.out.println(\"grün\"); System.err.println(\"to the other\")", "grün\n", "to the other\n"),
])
def test_what_is_printed_is_heard(box, language, code, stdout, stderr):
    done = run(box, language, code)
    assert (done["stdout"], done["stderr"]) == (stdout, stderr), done


@pytest.mark.parametrize("language, code, name, value", [
    ("r", "stop('of a reason')", "simpleError", "of a reason"),
    ("r", "1 +", "simpleError", "unexpected end"),
    ("r", "readline('?')", "simpleError", "input is not available"),
    ("java", "throw new IllegalStateException(\"of a reason\")", "java.lang.IllegalStateException", "of a reason"),
    ("java", "int y = ;", "CompilationError", "illegal start"),
    ("java", "nowhere(1)", "CompilationError", "cannot find symbol"),
])
def test_an_error_has_its_name_and_cause(box, language, code, name, value):
    error = run(box, language, code)["error"]
    assert error["name"] == name and value in error["value"], error


def test_a_plot_of_r_is_a_picture(box):
    done = run(box, "r", "plot(1:10); hist(c(1, 2, 2, 3))")
    assert [base64.b64decode(row["png"])[:8] for row in done["results"]] == [b"\x89PNG\r\n\x1a\n"] * 2, done


def test_a_data_frame_of_r_is_a_table(box):
    shown = run(box, "r", "data.frame(a = 1:2, b = c('x', '<y>'))")["results"][0]
    assert "<th>a</th><th>b</th>" in shown["html"] and "&lt;y&gt;" in shown["html"], shown


@pytest.mark.parametrize("language, code", [("r", "Sys.getenv('GIVEN')"), ("java", "env.get(\"GIVEN\")")])
def test_an_environment_is_for_one_call(box, language, code):
    assert "a \\\"b\\\" \\\\" in run(box, language, code, env={"GIVEN": 'a "b" \\'})["results"][0]["text"]
    assert run(box, language, code)["results"][0]["text"] in ('[1] ""', "null")


@pytest.mark.parametrize("language, code", [("r", "while (TRUE) {}"), ("java", "while (true) {}")])
def test_what_hangs_is_ended_in_time_and_the_next_call_works(box, language, code):
    assert run(box, language, code, timeoutMs=2000)["error"]["name"] == "ExecutionTimeout"
    assert "2" in run(box, language, "1+1")["results"][0]["text"]
