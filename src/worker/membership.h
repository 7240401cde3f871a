// Membership: the worker's side of docs/protocol.md, from Init to the end of its connection, and
// over the connections to one swarm that follow each other. A state machine: an event in, actions
// out; no threads, sockets, clock, files or engine. It decides what is legal, what is fetched,
// read, loaded and computed in which order, and what is answered. Others carry it out
// (native_worker.h on threads, sim/ on a virtual clock).
//
// Here events are told to the part that they are for. Each part owns its data, and asks for actions
// through the outbox: Joining (how it comes in and back), Loads (what is on its way into memory),
// StepQueue (what waits to be computed), ExpertWork (experts on other machines).
//
// Rules. Messages take effect in the order in which they came. The engine's work for them waits in
// one queue, with the answers that must not overtake it, and is done one piece at a time. So a step
// that arrived before a Retire is still computed before the layers go. What the orchestrator must
// never send ends the connection (Finish); work that cannot be done here is refused in its own
// answer (Failed, StepFailed).
//
// A connection that breaks ends what was not finished: loads, and work that waits. The work under
// way is finished and not answered; what forgets or unloads is still done. Bindings and sessions
// stay for as long as keeping.h says, and the Connect of the next connection names them.
//
// The same parts in TypeScript: web/packages/worker/src/membership. Both keep every case of
// tests/conformance/membership.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "worker/expert_work.h"
#include "worker/joining.h"
#include "worker/loads.h"
#include "worker/membership_events.h"
#include "worker/outbox.h"
#include "worker/outcomes.h"
#include "worker/stage_table.h"
#include "worker/step_queue.h"

namespace weft::worker {

class Membership {
 public:
  // Begins with a connection, whose Init comes next. Without `random` it agrees on no datagrams as
  // a hub.
  explicit Membership(const Offer& offer, const dispatch::Options& dispatch = {},
                      std::function<void(MutableByteSpan)> random = {})
      : experts_(out_, offer, dispatch, std::move(random)),
        queue_(out_, stages_, experts_, offer),
        loads_(out_, stages_, experts_, queue_),
        joining_(out_, stages_, queue_, loads_, offer),
        outcomes_(out_, experts_, queue_, loads_, joining_) {}
  // Its parts know each other by their addresses.
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // What to do now, in this order. `now` is when the event happened.
  std::vector<Action> Handle(Event event, Instant now);

  // Finish was asked for, or the worker left: events have no effect any more.
  bool ended() const { return out_.ended(); }

 private:
  void On(MessageReceived& event);
  void On(ControlReceived& event);
  void On(Joined& event) { joining_.OnJoined(std::move(event.package)); }
  void On(FetchProgressed& event) { loads_.OnProgress(event); }
  void On(LayerFetched& event);
  void On(FetchEnded& event) { loads_.OnFetchEnded(event.status); }
  void On(LayersRead& event) { loads_.OnRead(std::move(event)); }
  void On(WorkDone& event) { outcomes_.On(std::move(event)); }
  void On(WholeWished& event) { joining_.SayWish(event); }
  void On(LeaveAsked& event) { joining_.Leave(event); }
  void On(ConnectionLost&) { joining_.OnConnectionLost(); }
  void On(ConnectedAgain&) { joining_.OnConnectedAgain(); }
  void On(KeptLongEnough&) { joining_.OnKeptLongEnough(); }
  void On(TimerDue&) { experts_.OnTimer(); }
  void On(DatagramReceived& event) { experts_.OnDatagram(event.datagram); }

  void OnControl(wire::pb::ServerMessage message);
  void OnOrder(wire::pb::ServerMessage& message);
  void OnPing(const wire::pb::Ping& ping);
  void OnFork(ByteSpan message);
  void OnWholeFrame(ByteSpan message);
  // What follows from the event: the next fetch, work and read.
  void Advance();

  Outbox out_;
  StageTable stages_;  // changed by loads_
  ExpertWork experts_;
  StepQueue queue_;
  Loads loads_;
  Joining joining_;
  Outcomes outcomes_;
};

}  // namespace weft::worker
