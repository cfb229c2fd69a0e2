# SPDX-License-Identifier: Apache-2.0
"""An image of a registry becomes an organisation's template, through the API."""
import socket
import tarfile

import oci
import pytest
import registry
from service import Box, Service, wait_for

CONFIG = {"User": "app", "WorkingDir": "/work", "Env": ["FROM=the registry", "PATH=/bin"]}


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    own = oci.layer(oci.entry("work", type=tarfile.DIRTYPE, mode=0o777))
    layers = [oci.layer(*oci.programs("sh", "cat")), oci.BASE, own]
    return oci.layout(tmp_path_factory.mktemp("image") / "small", layers, config=CONFIG)


@pytest.fixture(scope="module")
def reg(image):
    with registry.Fake(image) as found:
        yield found


@pytest.fixture(scope="module")
def deaf():
    """A registry that is there and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield f"127.0.0.1:{found.getsockname()[1]}"


@pytest.fixture(scope="module")
def puller(service, reg, deaf):
    with Service(pool=1, tables={"registry": {"serve": [reg.host, deaf]}}) as found:
        yield found


@pytest.fixture
def client(puller, request):
    org, client = puller.tenant(request.node.name)
    client.org = org
    yield client
    client.delete("/v1/sandboxes", expect=200)
    client.request("DELETE", "/v1/templates/mine")
    puller.operator.delete(f"/v1/orgs/{org}", expect=204)


def pull(client, **body):
    return client.request("POST", "/v1/templates/pull", body={"name": "mine", **body})


def ended(client, build):
    def look():
        found = client.get(f"/v1/builds/{build}", expect=200)
        return found if found["state"] in ("ready", "error") else None
    return wait_for(look, 120, "the end of the pull")


def stored(puller):
    return [p.name for p in (puller.state / "templates").iterdir() if p.name.startswith((".image-", ".layer-", ".new-"))]


def test_what_may_not_or_cannot_be_pulled_says_why_and_leaves_nothing(puller, client, reg):
    key = puller.key(org=client.org, scopes=["read", "exec"])
    assert pull(puller.client(key), image=f"{reg.host}/team/app:1").status == 403
    for image, words in (("127.0.0.1:1/x:1", "registry.serve"), ("docker.io/library/alpine:3", "registry.serve"), ("no image!", "pull 'no image!'")):
        done = ended(client, pull(client, image=image).json["id"])
        assert done["state"] == "error" and words in done["error"], done
    reg.broken = True
    done = ended(client, pull(client, image=f"{reg.host}/team/other:1").json["id"])
    reg.broken = False
    assert done["state"] == "error" and "pull '" in done["error"], done
    assert client.request("POST", "/v1/sandboxes", body={"template": "mine"}).status == 404


def test_a_pull_is_cancelled_like_any_build_and_there_are_two_at_a_time(puller, client, deaf):
    begun = [pull(client, image=f"{deaf}/team/app:1", name=name) for name in ("mine", "other", "third")]
    assert [b.status for b in begun] == [202, 202, 429], begun
    for one in begun[:2]:
        client.delete(f"/v1/builds/{one.json['id']}", expect=204)
        done = ended(client, one.json["id"])
        assert done["state"] == "error" and "cancelled" in done["error"], done
    wait_for(lambda: not stored(puller), 20, f"the end of {stored(puller)}")


def test_an_image_becomes_a_template_of_the_organisation_alone(puller, client, reg):
    reg.token = "secret"
    begun = pull(client, image=f"{reg.host}/team/app:1", username=registry.USER, password=registry.PASSWORD)
    assert begun.status == 202, begun
    done = ended(client, begun.json["id"])
    reg.token = None
    assert done["state"] == "ready", done
    assert any("downloading" in line["text"] for line in done["log"]), done["log"]
    box = Box(client, {"template": "mine"})
    said = box.exec("/bin/sh", "-c", "printf %s \"$FROM\"; cat /opt/one; pwd")
    assert said["stdout"] == "the registryone\n/work\n", said
    # It is there after everything was killed, and nobody else has it.
    client.delete("/v1/sandboxes", expect=200)
    puller.kill9_daemon()
    puller.wait_ready()
    assert Box(client, {"template": "mine"}).exec("/bin/cat", "/opt/one")["stdout"] == "one\n"
    org, stranger = puller.tenant("stranger")
    assert stranger.request("POST", "/v1/sandboxes", body={"template": "mine"}).status == 404
    assert stranger.request("GET", f"/v1/builds/{begun.json['id']}").status == 404
    puller.operator.delete(f"/v1/orgs/{org}", expect=204)
    state = b"".join(p.read_bytes() for p in (puller.state / "daemon").glob("sandglass.db*"))
    assert registry.PASSWORD.encode() not in state and registry.PASSWORD not in puller.log()
    client.delete("/v1/sandboxes", expect=200)
    client.delete("/v1/templates/mine", expect=204)
