"""Rerankers with one defect each."""

import asyncio
import math

from memspine.conformance.reference.reranker import ReferenceReranker
from memspine.errors import RerankError


class Clean(ReferenceReranker):
    """No defect."""

    breaks = ()

    def __init__(self, context):
        super().__init__(context.name)
        self.folder = context.data_folder


class Answers(Clean):
    """Changes the scores of an answer."""

    def change(self, scores, query, texts):
        raise NotImplementedError

    async def rerank(self, query, texts):
        return tuple(self.change(await super().rerank(query, texts), query, texts))


class JudgesEqualTextsOnce(Clean):
    breaks = ("RR-1",)

    async def rerank(self, query, texts):
        return await super().rerank(query, list(dict.fromkeys(texts)))


class BestFirst(Answers):
    breaks = ("RR-1",)

    def change(self, scores, query, texts):
        return sorted(scores, reverse=True)


class TopOfTheTexts(Answers):
    """Gives the best three, as the service behind does unless it is asked for all."""

    breaks = ("RR-1",)

    def change(self, scores, query, texts):
        return scores[:3]


class NotANumber(Answers):
    breaks = ("RR-2",)

    def change(self, scores, query, texts):
        return [math.nan if len(text) > 1000 else score for score, text in zip(scores, texts, strict=True)]


class Logarithms(Answers):
    breaks = ("RR-2",)

    def change(self, scores, query, texts):
        return [math.log(score) if score else -math.inf for score in scores]


class SharesOfTheBest(Answers):
    """The best text of every call has the score 1."""

    breaks = ("RR-3",)

    def change(self, scores, query, texts):
        return [score / (max(scores) or 1) for score in scores]


class FirstIsBetter(Answers):
    breaks = ("RR-3",)

    def change(self, scores, query, texts):
        return [score - place / 10 for place, score in enumerate(scores)]


class Forgetful(Answers):
    breaks = ("RR-4",)
    calls = 0

    def change(self, scores, query, texts):
        self.calls += 1
        return [score + self.calls % 3 for score in scores]


class SeedOfTheProcess(Answers):
    breaks = ("RR-4",)

    def change(self, scores, query, texts):
        return [score + sum(1 for _ in self.folder.iterdir()) for score in scores]

    def close(self):
        (self.folder / "closed").touch()
        super().close()


class NothingIsAnError(Clean):
    breaks = ("RR-5",)

    async def rerank(self, query, texts):
        if not texts:
            raise RerankError(self.name, "no texts", expected="some")
        return await super().rerank(query, texts)


class TakesHundreds(Clean):
    breaks = ("RR-6",)

    async def rerank(self, query, texts):
        return await super().rerank(query, texts[:512])


class BatchesOfTheirOwn(Answers):
    """The scores of each batch are shares of its best."""

    breaks = ("RR-6",)

    def change(self, scores, query, texts):
        return [score if place < 512 else 2 * score for place, score in enumerate(scores)]


class RefusesLongTexts(Clean):
    breaks = ("RR-7",)

    async def rerank(self, query, texts):
        if any(len(text) > 32_000 for text in (query, *texts)):
            raise RerankError(self.name, "too long", expected="less", kind="too_long")
        return await super().rerank(query, texts)


class AsksInASyntax(Clean):
    breaks = ("RR-7",)

    async def rerank(self, query, texts):
        if query.count('"') % 2:
            raise RerankError(self.name, "unterminated string", expected="pairs of quotes")
        return await super().rerank(query, texts)


class LongIsGood(Answers):
    breaks = ("RR-8",)

    def change(self, scores, query, texts):
        return map(float, map(len, texts))


class LowerIsBetter(Answers):
    breaks = ("RR-8",)

    def change(self, scores, query, texts):
        return [-score for score in scores]


class SortsItsInput(Clean):
    breaks = ("RR-9",)

    async def rerank(self, query, texts):
        scores = await super().rerank(query, texts)
        if isinstance(texts, list):
            texts.sort()
        return scores


class SkipsBlanks(Clean):
    breaks = ("RR-10",)

    async def rerank(self, query, texts):
        return await super().rerank(query, [text for text in texts if text.strip()])


class BlanksAtTheEnd(Clean):
    breaks = ("RR-10",)

    async def rerank(self, query, texts):
        return await super().rerank(query, sorted(texts, key=lambda text: not text.strip()))


class BlankQuestionsHaveNoAnswer(Clean):
    breaks = ("RR-10",)

    async def rerank(self, query, texts):
        return await super().rerank(query, texts) if query.strip() else ()


class RefusesBlanks(Clean):
    """No defect, as long as it says what is wrong."""

    breaks = ()
    kind = "invalid"

    async def rerank(self, query, texts):
        if texts and not all(map(str.strip, (query, *texts))):
            raise RerankError(self.name, "blank text", expected="words", kind=self.kind)
        return await super().rerank(query, texts)


class SaysItMayPass(RefusesBlanks):
    breaks = ("RR-11",)
    kind = "transient"


class SaysSomethingElse(RefusesBlanks):
    breaks = ("RR-11",)
    kind = "http-400"


class ClosesLate(Clean):
    breaks = ("RR-20",)

    def close(self):
        pass


class OpensEarly(Clean):
    breaks = ("RR-20",)

    @staticmethod
    def on_construction(context):
        (context.data_folder / "model.lock").touch()


class SharesABuffer(Clean):
    breaks = ("RR-21",)
    buffer = ()

    async def rerank(self, query, texts):
        self.buffer = (query, texts)
        await asyncio.sleep(0)
        return await super().rerank(*self.buffer)


class BreaksWhenCancelled(Clean):
    breaks = ("RR-22",)
    busy = False

    async def rerank(self, query, texts):
        if self.busy:
            raise RerankError(self.name, "busy", expected="one call at a time", kind="rate")
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        return await super().rerank(query, texts)
