# SPDX-License-Identifier: Apache-2.0
"""Documents through the service and the real template: POST /v1/parse and `sandglass parse`. What each kind of
document gives is in tests/integration/test_parse.py; here it is the sandbox around it."""
import base64
import json
import pathlib

from service import wait_for

DOCUMENTS = pathlib.Path(__file__).resolve().parents[1] / "documents"
GREETING = "Grüße from the dunes: sand flows, time passes."


def parse(service, document, expect=200, **query):
    return service.operator.post("/v1/parse", document, query=query, expect=expect)


def no_sandbox(service):
    wait_for(lambda: not service.operator.get("/v1/sandboxes", expect=200)["sandboxes"], what="the end of the sandbox")


def test_a_document_comes_back_as_text_and_tables(service):
    got = parse(service, (DOCUMENTS / "report.docx").read_bytes(), name="report.docx")
    assert got["document"]["format"] == "docx" and GREETING in got["document"]["text"]
    assert got["document"]["tables"][0]["rows"][1] == ["July", "1200"]
    assert got["tier"] == "cell" and got["images"] == []
    no_sandbox(service)


def test_pages_come_as_images(service):
    got = parse(service, (DOCUMENTS / "report.pdf").read_bytes(), images="true")
    [image] = got["images"]
    assert image["name"] == got["document"]["images"][0]["file"]
    assert base64.b64decode(image["base64"])[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_refused_document_says_why(service):
    said = parse(service, (DOCUMENTS / "encrypted.pdf").read_bytes(), expect=400)
    assert "encrypted" in said["error"]["message"] and "password" in said["error"]["message"]
    said = parse(service, b"\x7fELF" + bytes(100), expect=501)
    assert said["error"]["kind"] == "unsupported"
    no_sandbox(service)


def test_memory_that_is_too_small_is_named(service):
    sheet = "\n".join(f"{i},{'x' * 100}" for i in range(200_000)).encode()
    said = parse(service, sheet, expect=400, name="big.csv", memoryBytes=64 << 20)
    assert "memory" in said["error"]["message"]
    no_sandbox(service)


def test_a_deadline(service):
    said = parse(service, (DOCUMENTS / "report.docx").read_bytes(), expect=504, timeoutMs=1)
    assert "timeoutMs" in said["error"]["hint"]
    no_sandbox(service)


def test_who_goes_away_takes_the_sandbox_along(service):
    caller = service.client(service.key())
    connection = caller.fresh()
    connection.request("POST", "/v1/parse", (DOCUMENTS / "report.docx").read_bytes(), caller.headers(None))
    wait_for(lambda: service.operator.get("/v1/sandboxes", expect=200)["sandboxes"], what="the sandbox")
    connection.close()
    no_sandbox(service)


def test_the_command(service, tmp_path):
    def run(*args):
        return service.runner.sandglass("parse", *args, env={"SANDGLASS_CONFIG": str(service.config)})

    done = run(DOCUMENTS / "report.pdf", "--images", tmp_path / "pages")
    assert done.returncode == 0 and GREETING in done.stdout, done.stderr
    assert (tmp_path / "pages" / "page-1.png").read_bytes()[:4] == b"\x89PNG"
    done = run("--json", DOCUMENTS / "numbers.xlsx")
    assert json.loads(done.stdout)["document"]["tables"][0]["name"] == "Sales"
    done = run(DOCUMENTS / "encrypted.pdf")
    assert done.returncode != 0 and "password" in done.stderr and not done.stdout
    done = run(tmp_path / "absent.pdf")
    assert done.returncode != 0 and "No such file" in done.stderr
    hostile = tmp_path / "a.txt"
    hostile.write_text("one\x1b]0;title\x07two")
    assert "\x1b" not in run(hostile).stdout
