#include "cli/watch/top_screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "cli/watch/top_frame.h"

namespace ringwood {
namespace {

// The terminal as it must be for single keys and a screen of our own; as it was when this ends.
class Screen {
 public:
  Screen() {
    ::tcgetattr(STDIN_FILENO, &before_);
    Enter();
  }
  ~Screen() { Leave(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Again, too: a shell sets the terminal as it likes it while a job is stopped.
  void Enter() {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    std::fputs("\x1b[?1049h\x1b[?25l", stdout);
    std::fflush(stdout);
  }

  // Until the shell continues the program; meanwhile screen and keys are the shell's.
  void Stop() {
    Leave();
    ::raise(SIGSTOP);
    Enter();
  }

  // Each line and what was behind it; then what was below.
  void Draw(const std::vector<std::string>& frame) {
    std::string out = "\x1b[H";
    for (size_t i = 0; i < frame.size(); ++i) {
      out += (i == 0 ? "" : "\r\n") + frame[i] + "\x1b[K";
    }
    out += "\x1b[J";
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
  }

 private:
  void Leave() {
    std::fputs("\x1b[?25h\x1b[?1049l", stdout);
    std::fflush(stdout);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  termios before_ = {};
};

TerminalSize SizeNow() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    return {size.ws_col, size.ws_row};
  }
  return {};
}

// Until the next frame is due. False: the user wants to end.
bool Pause(SignalDescriptor* signals, double seconds, Screen* screen) {
  pollfd wait[] = {{STDIN_FILENO, POLLIN, 0}, {signals->descriptor(), POLLIN, 0}};
  ::poll(wait, 2, static_cast<int>(1000 * seconds));
  if (wait[0].revents != 0) {
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') return false;
  }
  for (int signal = signals->Next(); signal != 0; signal = signals->Next()) {
    switch (signal) {
      case SIGTSTP:
        screen->Stop();
        break;
      case SIGCONT:
        screen->Enter();
        break;
      case SIGWINCH:
        break;
      default:
        return false;
    }
  }
  return true;
}

void Look(StatusAsker* asker, TopView* view) {
  StatusOr<v1::StatusResponse> status = asker->Ask();
  view->trouble = status.ok() ? "" : Message(status.status());
  if (status.ok()) view->status = *std::move(status);
}

}  // namespace

Status PrintTop(StatusAsker* asker, bool color) {
  TopView view;
  RW_ASSIGN_OR_RETURN(view.status, asker->Ask());
  color = color && ::isatty(STDOUT_FILENO) == 1;
  for (const std::string& line : TopFrame(view, SizeNow(), color)) std::puts(line.c_str());
  return OkStatus();
}

Status RunTop(StatusAsker* asker, SignalDescriptor* signals, double every_seconds, bool color) {
  if (::isatty(STDOUT_FILENO) != 1 || ::isatty(STDIN_FILENO) != 1) {
    return Invalid("ringwood top needs a terminal; --once prints one frame anywhere");
  }
  TopView view;
  RW_ASSIGN_OR_RETURN(view.status, asker->Ask());
  Screen screen;
  screen.Draw(TopFrame(view, SizeNow(), color));
  while (Pause(signals, every_seconds, &screen)) {
    Look(asker, &view);
    screen.Draw(TopFrame(view, SizeNow(), color));
  }
  return OkStatus();
}

}  // namespace ringwood
