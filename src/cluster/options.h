// The times by which leases are kept and taken, on a server's own clock. None of them is needed for
// safety: with bad ones a cell pauses, or moves without need, and no token is wrong.
#pragma once

#include "base/clock.h"

namespace weft::cluster {

struct LeaseOptions {
  Duration hello_interval = Milliseconds(250);
  Duration renew_interval = Milliseconds(500);
  Duration read_interval = Milliseconds(500);
  Duration read_again = Milliseconds(50);  // least time between two reads, however urgent
  // The database's promise to a holder, by the database's clock. It is told with every statement.
  Duration time_to_live = Seconds(3);
  Duration query_timeout = Seconds(2);  // after it an answer is ignored
  Duration connect_again = Milliseconds(250);
  Duration connect_timeout = Seconds(4);
  // What a hello says is believed for so long.
  Duration hello_lifetime = Seconds(1);
  // A holder without a hello for this time may be dead; each successor waits longer than the one
  // before it.
  Duration silence = Milliseconds(1500);
  Duration silence_step = Milliseconds(300);
  // Without events for so long this server was asleep, and cannot say that others were silent.
  Duration sleep = Milliseconds(750);
  int refusals = 2;  // in a row make a peer dead
  // Who loses a cell so soon after taking it on refusals has been told a lie, by a firewall. It
  // believes no refusals for a while, twice as long each time.
  Duration probation = Seconds(60);
  Duration distrust = Seconds(30);
  Duration longest_distrust = Seconds(600);
  Duration parking = Seconds(2);
  Duration hand_over_again = Seconds(1);  // pause after one that failed
};

}  // namespace weft::cluster
