// A server for tests of workers that connect to one: it says what an orchestrator would, and cuts
// the line.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/server.h"
#include "package/manifest.h"
#include "program/ir.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"
#include "wire/version.h"

namespace weft::apps {

namespace pb = wire::pb;

// Init goes to whoever comes, and the messages that come back are text. It may have a list of
// models.
class FakeServer : public net::ServerHandler {
 public:
  explicit FakeServer(uint32_t layer_count) {
    pb::Init& init = *init_.mutable_init();
    init.set_protocol_version(wire::kProtocolVersion);
    init.set_program_version(program::kProgramVersion);
    init.set_package_format(package::kPackageFormat);
    init.set_package_digest(std::string(32, 'x'));
    init.set_layer_count(layer_count);
    init.set_swarm_id("one");
    init.set_resume_ms(60'000);
    init.set_ping_interval_ms(60'000);  // it never does
    server_ = net::Server::Listen(loop_, {}, this).value();
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~FakeServer() override {
    loop_.Stop();
    thread_.join();
    sockets_.clear();
    asking_.reset();
  }

  net::Url url() const {
    return *net::ParseUrl("ws://127.0.0.1:" + std::to_string(server_->port()) + "/worker");
  }

  // To the connection that came last.
  void Tell(const pb::ServerMessage& message) {
    loop_.Post([this, message] { Send(*sockets_.back(), message); });
  }
  void TellStep(uint32_t sequence, uint32_t position) {
    wire::FrameHeader header;
    header.sequence = sequence;
    header.binding = 1;
    header.rows = header.columns = 1;
    header.dtype = DType::kI32;
    const wire::Run run = {1, 0, position, 1, wire::OutputKind::kArgmax, 0};
    std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, {&run, 1}, 4);
    bytes.insert(bytes.end(), {7, 0, 0, 0});
    loop_.Post([this, bytes = std::move(bytes)] { sockets_.back()->Send({Slice(bytes)}); });
  }
  // Of the Inits from now on.
  void SetIncarnation(uint64_t incarnation) {
    loop_.Post([this, incarnation] { init_.mutable_init()->set_incarnation(incarnation); });
  }
  void NameSuccessor(const net::Url& url) {
    loop_.Post([this, text = "ws://" + url.Authority()] {
      init_.mutable_init()->add_successors()->set_url(text);
    });
  }
  void SendElsewhere(const std::string& url) {
    loop_.Post([this, url] { sockets_.back()->Close(url, net::kTryElsewhere); });
  }
  // `cells` is the list's JSON. Whoever waits for news is told.
  void SetCells(uint64_t version, const std::string& cells) {
    loop_.Post([this, version, cells] {
      cells_version_ = version;
      cells_ = R"({"version": )" + std::to_string(version) + R"(, "cells": )" + cells + "}";
      if (const auto asking = std::exchange(asking_, nullptr))
        asking->Send(net::TextResponse(200, "application/json", cells_));
    });
  }
  void Cut() {
    loop_.Post([this] { sockets_.back()->Close("cut"); });
  }

  int CountOf(const std::string& begin) {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(
        came_.begin(), came_.end(), [&](const auto& text) { return text.starts_with(begin); }));
  }

  // The text that comes as the `count`th of those that begin so; "" when it never does.
  std::string Comes(const std::string& begin, int count = 1) {
    std::unique_lock lock(mutex_);
    std::string found;
    changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      int seen = 0;
      for (const std::string& text : came_)
        if (text.starts_with(begin) && ++seen == count) found = text;
      return !found.empty();
    });
    return found;
  }

 private:
  void OnRequest(net::HttpRequest request, std::shared_ptr<net::Responder> responder) override {
    Came("GET " + request.path + "?" + request.query);
    if (request.path != "/worker/cells" || cells_.empty())
      return responder->Send(net::TextResponse(404, "text/plain", "nothing"));
    if (request.query.ends_with("seen=" + std::to_string(cells_version_))) {
      asking_ = std::move(responder);
      return;
    }
    responder->Send(net::TextResponse(200, "application/json", cells_));
  }
  bool OnHandshake(const net::HttpRequest&, net::HttpResponse*) override { return true; }
  net::HttpResponse MakeError(int status, const std::string& sentence,
                              const net::HttpRequest&) override {
    return net::TextResponse(status, "text/plain", sentence);
  }
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest&,
                                      std::shared_ptr<net::WebSocket> socket) override {
    sockets_.push_back(socket);
    Send(*socket, init_);
    net::WebSocketCallbacks callbacks;
    callbacks.on_message = [this](const Slice& message) { Came(TextOf(message)); };
    callbacks.on_closed = [this](const std::string&) { Came("closed"); };
    return callbacks;
  }

  static void Send(net::WebSocket& socket, const pb::ServerMessage& message) {
    std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
    bytes[0] = wire::kControlByte;
    ASSERT_TRUE(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    socket.Send({Slice(std::move(bytes))});
  }
  static std::string TextOf(const Slice& message) {
    const ByteSpan bytes = message.bytes();
    if (bytes[0] != wire::kControlByte)
      return "result " + std::to_string(wire::DecodeFrame(message).value().header.sequence);
    pb::WorkerMessage control;
    EXPECT_TRUE(control.ParseFromArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    return control.ShortDebugString();
  }
  void Came(std::string text) {
    const std::lock_guard lock(mutex_);
    came_.push_back(std::move(text));
    changed_.notify_all();
  }

  pb::ServerMessage init_;
  net::EventLoop loop_;
  std::unique_ptr<net::Server> server_;
  std::thread thread_;
  std::vector<std::shared_ptr<net::WebSocket>> sockets_;  // the loop's
  std::string cells_;
  uint64_t cells_version_ = 0;
  std::shared_ptr<net::Responder> asking_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> came_;
};

}  // namespace weft::apps
