import Air
import BlueZ
import Common
import Loop
import Radio
import Sharing
import TestSupport

/// Services on the rig's radio. Their timeouts are short, and the rig's time follows the loop's from then on: the
/// phones that connect to them use a real bus.
extension Rig {
  /// The radio as seen by one of several services.
  func tenant(_ name: String, needs: Int = 1, may: Int = 8) -> Tenant {
    let radio = shared ?? share()
    return radio.tenant(name, share: LinkShare(needs: needs, may: may, priority: needs))
  }

  /// Runs the events that are due now, so that the driver's events reach the services.
  func tellServices() { time.advance(by: .zero) }

  private func share() -> SharedRadio {
    let radio = SharedRadio(driver: driver, scheduler: time)
    shared = radio
    watch = radio.onStatus { [statuses] in statuses.put($0) }
    passing = Passing(time)
    return radio
  }
}

/// Advances virtual time with the loop's clock until it is released.
@LoopActor
final class Passing {
  private static let step = Duration.milliseconds(1)
  private let time: VirtualTime
  private var timer: Registration?

  init(_ time: VirtualTime) {
    self.time = time
    wait()
  }

  private func wait() {
    let begin = EventLoop.shared.now
    timer = EventLoop.shared.schedule(after: Self.step) { [weak self] in
      guard let self else { return }
      time.advance(by: begin.duration(to: EventLoop.shared.now))
      wait()
    }
  }
}
