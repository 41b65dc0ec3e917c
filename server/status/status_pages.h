// What the status port answers: the page, /status.json and /metrics, read-only. Pure but for the
// status that it asks for.
//
// Where strangers may reach the port every answer with facts of the job needs a token of it, of any
// role ("Bearer", as Prometheus sends it); the page itself has none, and asks for the token. On
// loopback nothing is needed but a Host that is this machine's: a web site that a browser here
// shows cannot read it by a name of its own that leads to 127.0.0.1.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

struct HttpRequest {
  std::string method;
  std::string path;           // without the query
  std::string host;           // the header, "" without
  std::string authorization;  // the header, "" without
};

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

class StatusPages {
 public:
  struct Options {
    bool guarded = true;                                   // needs the token
    std::string token;                                     // the job's secret
    std::function<StatusOr<v1::StatusResponse>()> status;  // any thread; bounded in time
    // Instead of it, of a deployment, whose secret `token` is: of the job that a token names, or of
    // all jobs.
    std::function<StatusOr<std::vector<v1::StatusResponse>>(const std::string& token)> status_of =
        nullptr;
  };
  explicit StatusPages(Options options) : options_(std::move(options)) {}

  HttpAnswer Answer(const HttpRequest& request) const;  // any thread

 private:
  StatusOr<std::string> Admit(const HttpRequest& request) const;
  HttpAnswer Show(const std::string& path, const std::string& token) const;

  const Options options_;
};

// "127.0.0.1:80", "localhost", "[fd00::1]:80": a name that no other site can have.
bool IsOwnHost(const std::string& host);

// page.html.
const std::string& StatusPage();

}  // namespace ringwood
