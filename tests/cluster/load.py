"""Submits plans until a file is there, waits for all, and prints what happened to them: python3 load.py API FILE

Ends with 1 if a plan was lost, doubled, hangs or did not complete, or if a step ran again after it had completed.
"""
import json
import pathlib
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from processes import call
from upgrade import BAD, ENDED, Load, events, judge

it = types.SimpleNamespace(apis=[sys.argv[1]])
load = Load(it)
load.start()
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.2)
    if not load.is_alive():
        sys.exit("the submission of plans ended early")
load.stopped.set()
load.join()
figures = judge(it, load)
print(json.dumps(figures))
if figures["attempts lost"]:
    lost = [event for plan in load.plans for event in events(it.apis[0], plan) if event["type"] == "step_retrying"]
    print("lost attempts, for example", json.dumps(lost[:3]), file=sys.stderr)
if figures["hung"]:
    api = it.apis[0]
    for plan in load.plans:
        view = call(f"{api}/v1/plans/{plan}")
        if view["status"] not in ENDED:
            print("hangs:", json.dumps(view), json.dumps(events(api, plan)), file=sys.stderr)
sys.exit(1 if any(figures[name] for name in BAD) or not figures["plans"] else 0)
