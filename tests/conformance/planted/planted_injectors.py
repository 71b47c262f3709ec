"""Injectors with one defect each."""

import copy
import itertools
import json

from memspine.injection.openai_chat import OpenAIChatInjector


class Clean(OpenAIChatInjector):
    """No defect."""

    breaks = ()
    counter = itertools.count()

    def __init__(self, context):
        self.context = context

    def close(self):
        pass


def last_of(request):
    messages = request.get("messages") if isinstance(request, dict) else None
    return messages[-1] if isinstance(messages, list) and messages and isinstance(messages[-1], dict) else None


class ChangesTheRequest(Clean):
    breaks = ("IN-1",)

    def inject(self, request, block, *, options):
        answer = super().inject(request, block, options=options)
        if last_of(request) is not None:
            request["messages"].append({"role": "user", "content": ""})
        return answer


class TakesOutOfTheRequest(Clean):
    breaks = ("IN-1",)

    def without(self, request, block):
        answer = super().without(request, block)
        if isinstance(request.get("messages"), list):
            request["messages"][:] = answer["messages"]
        return answer


class PlacesTwice(Clean):
    breaks = ("IN-2",)

    def inject(self, request, block, *, options):
        return super().inject(super().inject(request, block, options=options), block, options={"placement": "user"})


class PlacesNothing(Clean):
    breaks = ("IN-2", "IN-12")

    def inject(self, request, block, *, options):
        return copy.deepcopy(dict(request))


class TrimsTheBlock(Clean):
    breaks = ("IN-2",)

    def inject(self, request, block, *, options):
        return super().inject(request, block.replace("\\n", ""), options=options)


class KnownFieldsOnly(Clean):
    breaks = ("IN-3",)

    def inject(self, request, block, *, options):
        known = {name: value for name, value in request.items() if name in {"model", "messages", "tools"}}
        return super().inject(known, block, options=options)


class RebuildsMessages(Clean):
    breaks = ("IN-3",)

    def inject(self, request, block, *, options):
        answer = super().inject(request, block, options=options)
        fields = ("role", "content", "tool_calls", "tool_call_id")
        messages = [{name: message[name] for name in fields if name in message} for message in answer["messages"]] \
            if last_of(request) is not None else answer.get("messages")  # fmt: skip
        return {**answer, "messages": messages} if "messages" in answer else answer


class ReplacesTheSystem(Clean):
    breaks = ("IN-3", "IN-20")

    def inject(self, request, block, *, options):
        if last_of(request) is None:
            return super().inject(request, block, options=options)
        messages = [m for m in request["messages"] if m.get("role") not in ("system", "developer")]
        return super().inject({**request, "messages": messages}, block, options=options)


class Numbers(Clean):
    breaks = ("IN-4",)

    def inject(self, request, block, *, options):
        answer = super().inject(request, block, options=options)
        return {**answer, "id": next(self.counter)} if last_of(request) is not None else answer


class Tuples(Clean):
    breaks = ("IN-5",)

    def inject(self, request, block, *, options):
        answer = super().inject(request, block, options=options)
        return {**answer, "messages": tuple(answer["messages"])} if last_of(request) is not None else answer


class AsksTheBlock(Clean):
    breaks = ("IN-6",)

    def inject(self, request, block, *, options):
        if last_of(request) is None:
            return super().inject(request, block, options=options)
        return {**request, "messages": [*request["messages"], {"role": "user", "content": block}]}


class DropsImages(Clean):
    breaks = ("IN-7",)

    def inject(self, request, block, *, options):
        answer = super().inject(request, block, options=options)
        return json.loads(json.dumps(answer).replace("data:image/png;base64,AAAA", ""))


class AsksEveryone(Clean):
    breaks = ("IN-10",)

    def query_text(self, request):
        return " ".join(self.texts(request))


class AsksTheFirst(Clean):
    breaks = ("IN-10",)

    def query_text(self, request):
        users = [m for m in request.get("messages") or () if isinstance(m, dict) and m.get("role") == "user"]
        return super().query_text({"messages": users[:1]})


class AsksTheAssistant(Clean):
    breaks = ("IN-11",)

    def query_text(self, request):
        return super().query_text(request) or " ".join(self.texts(request))


class ShowsSystemOnly(Clean):
    breaks = ("IN-12",)

    def texts(self, request):
        messages = request.get("messages")
        if not isinstance(messages, list):
            return ()
        return super().texts({"messages": [m for m in messages if isinstance(m, dict) and m.get("role") == "system"]})


class LeavesTheGap(Clean):
    breaks = ("IN-20",)

    def without(self, request, block):
        return json.loads(json.dumps(request).replace(json.dumps(block)[1:-1], ""))


class TakesOutOne(Clean):
    breaks = ("IN-21",)

    def without(self, request, block):
        answer = super().without(request, block)
        count = sum(text.count(block) for text in self.texts(request))
        return self.inject(answer, block, options={}) if count > 1 else answer


class TakesOutAnyBlock(Clean):
    breaks = ("IN-21",)

    def without(self, request, block):
        answer = super().without(request, block)
        for text in self.texts(answer):
            start, end = text.find("<memory-context"), text.find("</memory-context>")
            if 0 <= start < end:
                answer = super().without(answer, text[start : end + len("</memory-context>")])
        return answer


class RaisesOnOddities(Clean):
    breaks = ("IN-30",)

    def query_text(self, request):
        return super().query_text(request) if request["messages"] is not None else ""


class MakesMessages(Clean):
    breaks = ("IN-30",)

    def without(self, request, block):
        return {"messages": [], **super().without(request, block)}


class NoName(Clean):
    breaks = ("IN-31",)
    name = ""
