#include "server/model_shelf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::server {
namespace {

using Action = ModelShelf::Action;
using State = ModelShelf::State;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Action Load(const std::string& model) {
  return {Action::Kind::kLoad, model};
}
Action Unload(const std::string& model) {
  return {Action::Kind::kUnload, model};
}

class ModelShelfTest : public testing::Test {
 protected:
  // Room for two of the three.
  void SetUp() override {
    shelf_.SetRoom({100});
    for (const char* model : {"a", "b", "c"}) shelf_.Know(model, 50, false);
  }
  std::vector<Action> Next() { return shelf_.Next(now_); }
  void Pass(Duration time) { now_ = now_ + time; }
  // Asks, loads and begins one request.
  void Begin(const std::string& model) {
    shelf_.Ask(model);
    EXPECT_THAT(Next(), ElementsAre(Load(model)));
    shelf_.NoteLoaded(model, now_);
    shelf_.Withdraw(model);
    shelf_.Begin(model, now_);
  }
  void BeginAndEnd(const std::string& model) {
    Begin(model);
    shelf_.End(model, now_);
  }

  ModelShelf shelf_{{.keep_alive = Seconds(300), .turn = Seconds(30)}};
  Instant now_{1'000'000};
};

TEST_F(ModelShelfTest, NothingIsLoadedBeforeItIsAsked) {
  EXPECT_THAT(Next(), IsEmpty());
  shelf_.Ask("b");
  EXPECT_THAT(Next(), ElementsAre(Load("b")));
  EXPECT_EQ(shelf_.StateOf("b"), State::kLoading);
  EXPECT_THAT(Next(), IsEmpty()) << "told once";
  EXPECT_FALSE(shelf_.IsOpen("b"));
  shelf_.NoteLoaded("b", now_);
  EXPECT_TRUE(shelf_.IsOpen("b"));
}

TEST_F(ModelShelfTest, TwoThatFitAreLoadedSideBySide) {
  Begin("a");
  Begin("b");
  EXPECT_TRUE(shelf_.IsOpen("a"));
  EXPECT_TRUE(shelf_.IsOpen("b"));
}

TEST_F(ModelShelfTest, TheOneThatIdlesLongestMakesRoom) {
  BeginAndEnd("a");
  Pass(Seconds(1));
  BeginAndEnd("b");
  Pass(Seconds(1));
  shelf_.Begin("a", now_);  // again: so it is b that idles longest
  shelf_.End("a", now_);
  shelf_.Ask("c");
  EXPECT_THAT(Next(), ElementsAre(Unload("b")));
  EXPECT_THAT(Next(), IsEmpty()) << "its memory is not free yet";
  EXPECT_THAT(shelf_.WhyItWaits("c"), HasSubstr("'a', 'b'"));
  shelf_.NoteUnloaded("b");
  EXPECT_THAT(Next(), ElementsAre(Load("c")));
}

TEST_F(ModelShelfTest, BusyOnesStayForTheirTurnAndFinishTheirAnswers) {
  Begin("a");
  Begin("b");
  shelf_.Ask("c");
  EXPECT_THAT(Next(), IsEmpty());
  EXPECT_TRUE(shelf_.IsOpen("a"));
  ASSERT_EQ(shelf_.next_look(), now_ + Seconds(30));
  Pass(Seconds(30));
  EXPECT_THAT(Next(), IsEmpty());
  EXPECT_FALSE(shelf_.IsOpen("a")) << "its turn is over";
  EXPECT_TRUE(shelf_.IsOpen("b")) << "one is enough";
  shelf_.Ask("a");  // has to wait behind c
  shelf_.End("a", now_);
  EXPECT_THAT(Next(), ElementsAre(Unload("a")));
  shelf_.NoteUnloaded("a");
  EXPECT_THAT(Next(), ElementsAre(Load("c")));
}

TEST_F(ModelShelfTest, WhoGivesUpWaitingClosesNothing) {
  Begin("a");
  Begin("b");
  shelf_.Ask("c");
  Pass(Seconds(31));
  Next();
  ASSERT_FALSE(shelf_.IsOpen("a"));
  shelf_.Withdraw("c");
  Next();
  EXPECT_TRUE(shelf_.IsOpen("a"));
}

TEST_F(ModelShelfTest, NobodyOvertakesWhoWaitsLongest) {
  shelf_.Know("large", 100, false);
  Begin("a");
  shelf_.Ask("large");
  shelf_.Ask("b");  // would fit beside a
  EXPECT_THAT(Next(), IsEmpty());
  shelf_.End("a", now_);
  EXPECT_THAT(Next(), ElementsAre(Unload("a")));
  shelf_.NoteUnloaded("a");
  EXPECT_THAT(Next(), ElementsAre(Load("large")));
}

TEST_F(ModelShelfTest, OneTooLargeForAllDevicesIsLoadedAlone) {
  shelf_.Know("huge", 1000, false);
  BeginAndEnd("a");
  shelf_.Ask("huge");
  EXPECT_THAT(Next(), ElementsAre(Unload("a")));
  shelf_.NoteUnloaded("a");
  EXPECT_THAT(Next(), ElementsAre(Load("huge")));
}

TEST_F(ModelShelfTest, WithoutAnyKnownMemoryOneIsLoadedAtATime) {
  shelf_.SetRoom({});
  BeginAndEnd("a");
  shelf_.Ask("b");
  EXPECT_THAT(Next(), ElementsAre(Unload("a")));
}

// Each of two devices offers the first two models all that they need, so nothing is left.
TEST_F(ModelShelfTest, CopiesOnSeveralDevicesCount) {
  shelf_.SetRoom({100, 100});
  BeginAndEnd("a");
  Pass(Seconds(1));
  BeginAndEnd("b");
  shelf_.Ask("c");
  EXPECT_THAT(Next(), ElementsAre(Unload("a")));
}

TEST_F(ModelShelfTest, AModelMayBeSpreadOverDevices) {
  shelf_.SetRoom({30, 30});
  shelf_.Know("d", 10, false);
  BeginAndEnd("a");
  shelf_.Ask("d");
  EXPECT_THAT(Next(), ElementsAre(Unload("a"))) << "it needs both of them whole";
  shelf_.SetRoom({30, 30, 30});
  shelf_.NoteUnloaded("a");
  EXPECT_THAT(Next(), ElementsAre(Load("d")));
}

TEST_F(ModelShelfTest, AModelThatWasLoadedForSomebodyIsNotUnloadedBeforeHeBegins) {
  Begin("a");
  shelf_.Ask("b");
  EXPECT_THAT(Next(), ElementsAre(Load("b")));
  shelf_.SetRoom({60});
  shelf_.NoteLoaded("b", now_);
  EXPECT_THAT(Next(), IsEmpty());
  shelf_.Withdraw("b");
  EXPECT_THAT(Next(), ElementsAre(Unload("b"))) << "he has given up";
}

TEST_F(ModelShelfTest, WhenADeviceGoesOneModelGoesWithIt) {
  BeginAndEnd("a");
  Pass(Seconds(1));
  BeginAndEnd("b");
  EXPECT_THAT(Next(), IsEmpty());
  shelf_.SetRoom({60});
  EXPECT_THAT(Next(), ElementsAre(Unload("a")));
  shelf_.NoteUnloaded("a");
  shelf_.SetRoom({});
  EXPECT_THAT(Next(), IsEmpty()) << "the last one stays: a device may come back";
}

TEST_F(ModelShelfTest, IdleOnesGoWhenTheirTimeIsOver) {
  BeginAndEnd("a");
  EXPECT_EQ(shelf_.EndOf("a"), now_ + Seconds(300));
  EXPECT_THAT(Next(), IsEmpty());
  EXPECT_EQ(shelf_.next_look(), now_ + Seconds(300));
  Pass(Seconds(299));
  shelf_.Begin("a", now_);
  Pass(Seconds(2));
  EXPECT_THAT(Next(), IsEmpty()) << "it answers";
  shelf_.End("a", now_);
  Pass(Seconds(300));
  EXPECT_THAT(Next(), ElementsAre(Unload("a")));
}

TEST_F(ModelShelfTest, PinnedOnesAreLoadedAtOnceAndStay) {
  shelf_.Know("p", 500, true);
  shelf_.Know("q", 500, true);
  EXPECT_THAT(Next(), ElementsAre(Load("p"), Load("q")));
  for (const char* model : {"p", "q"}) shelf_.NoteLoaded(model, now_);
  shelf_.Ask("a");
  Pass(Seconds(10'000));
  EXPECT_THAT(Next(), IsEmpty());
  EXPECT_TRUE(shelf_.IsOpen("p"));
}

TEST_F(ModelShelfTest, APinnedOneThatFailedIsTriedAgainLaterOrWhenItIsAsked) {
  shelf_.Know("p", 500, true);
  EXPECT_THAT(Next(), ElementsAre(Load("p")));
  shelf_.NoteFailed("p", now_);
  EXPECT_THAT(Next(), IsEmpty());
  ASSERT_TRUE(shelf_.next_look());
  EXPECT_EQ(*shelf_.next_look(), now_ + Seconds(30));
  shelf_.Ask("p");
  EXPECT_THAT(Next(), ElementsAre(Load("p")));
  shelf_.NoteFailed("p", now_);
  Pass(Seconds(30));
  EXPECT_THAT(Next(), ElementsAre(Load("p")));
  shelf_.NoteLoaded("p", now_);
  EXPECT_THAT(Next(), IsEmpty());
  EXPECT_TRUE(shelf_.IsOpen("p"));
}

TEST_F(ModelShelfTest, OneThatIsToGoWaitsForItsAnswersAndTakesNoMore) {
  BeginAndEnd("a");
  shelf_.Begin("a", now_);
  shelf_.AskUnload("a");
  EXPECT_THAT(Next(), IsEmpty()) << "an answer is under way";
  EXPECT_FALSE(shelf_.IsOpen("a"));
  shelf_.Ask("a");
  EXPECT_THAT(shelf_.WhyItWaits("a"), testing::HasSubstr("'a' is to be unloaded"));
  shelf_.End("a", now_);
  EXPECT_THAT(Next(), ElementsAre(Unload("a")));
  EXPECT_THAT(Next(), IsEmpty());
  shelf_.NoteUnloaded("a");
  EXPECT_THAT(Next(), ElementsAre(Load("a"))) << "somebody waits for it";
  shelf_.NoteLoaded("a", now_);
  EXPECT_TRUE(shelf_.IsOpen("a"));
}

TEST_F(ModelShelfTest, ALoadThatFailedLeavesNobodyWaiting) {
  shelf_.Ask("a");
  Next();
  shelf_.NoteFailed("a", now_);
  EXPECT_EQ(shelf_.StateOf("a"), State::kOnDisk);
  EXPECT_THAT(Next(), IsEmpty()) << "it is not tried again by itself";
}

TEST_F(ModelShelfTest, OneThatIsNotOnDiskAnyMoreStaysUntilItIsUnloaded) {
  BeginAndEnd("a");
  shelf_.Forget("a");
  shelf_.Forget("b");
  shelf_.Sweep();
  EXPECT_TRUE(shelf_.Knows("a"));
  EXPECT_FALSE(shelf_.Knows("b"));
  Pass(Seconds(300));
  EXPECT_THAT(Next(), ElementsAre(Unload("a")));
  shelf_.NoteUnloaded("a");
  EXPECT_EQ(shelf_.StateOf("a"), ModelShelf::State::kOnDisk);
  shelf_.Sweep();
  EXPECT_FALSE(shelf_.Knows("a"));
}

TEST_F(ModelShelfTest, OneThatIsNotOnDiskAnyMoreIsKnownWhileSomebodyWaitsForIt) {
  shelf_.Ask("a");
  shelf_.Forget("a");
  shelf_.Sweep();
  EXPECT_EQ(shelf_.StateOf("a"), ModelShelf::State::kOnDisk);
  EXPECT_THAT(Next(), ElementsAre(Load("a")));
  shelf_.Sweep();
  shelf_.NoteFailed("a", now_);
  EXPECT_EQ(shelf_.StateOf("a"), ModelShelf::State::kOnDisk);
  shelf_.Ask("a");
  shelf_.Withdraw("a");
  shelf_.Sweep();
  EXPECT_FALSE(shelf_.Knows("a"));
}

}  // namespace
}  // namespace weft::server
