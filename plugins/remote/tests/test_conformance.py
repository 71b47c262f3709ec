import subprocess
import sys
from functools import partial

import pytest

from . import server
from .server import Reply, openai_error, serving

OPENAI = partial(server.strict, texts_max=30, window=512)


def speaking(request):
    """Every shape at once, by the path; Cohere refuses what is too long as OpenAI does."""
    if request.path.endswith("/rerank"):
        return server.jina(request)
    if request.path.endswith("/embeddings"):
        return OPENAI(request)
    if any(server.tokens(text) > 512 for text in request.body["texts"]):
        return Reply(status=400, body=openai_error("too many tokens"))
    return server.cohere(request)


@pytest.mark.parametrize("api", ["openai", "cohere"])
def test_the_source_keeps_the_contract(tmp_path, api):
    """Every clause, against a server with a small window that takes few texts and answers in any order."""
    with serving(speaking) as provider:
        prove(tmp_path, provider, "embedding", f'[embedding.remote]\nplugin = "remote"\napi = "{api}"\n')


@pytest.mark.parametrize("api", ["jina", "cohere"])
def test_the_reranker_keeps_the_contract(tmp_path, api):
    """Every clause, against a server that judges by shared words."""
    with serving(speaking) as provider:
        prove(tmp_path, provider, "reranker", f'[rerank.remote]\nplugin = "remote"\napi = "{api}"\n')


def prove(folder, provider, contract, table):
    """Run the kit in a process of its own."""
    config = folder / "remote.toml"
    config.write_text(f'{table}model = "m"\nbase_url = "{provider.url}"\n', encoding="utf-8")
    option = {"embedding": "--memspine-source", "reranker": "--memspine-reranker"}[contract]
    kit = ["--pyargs", "memspine.conformance", "--memspine-contract", contract, option, "remote"]
    place = ["--rootdir", folder, "--confcutdir", folder, "-p", "no:cacheprovider", "--memspine-config", config]
    command = [sys.executable, "-m", "pytest", "-q", *place, *kit]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
