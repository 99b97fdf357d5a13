import BlueZ
import HCI
import Hosting
import Loop

/// Applies the capabilities of the service: it opens the management socket with CAP_NET_ADMIN and gives that capability
/// up. CAP_NET_RAW is effective only while it sends, and while it sets a filter.
///
/// Create it before other threads start.
struct Privileges: Sendable {
  private let management: Result<HCISocket, HCIError>?
  private let wantsRaw: Bool
  private let mayUseRaw: Bool

  init(_ settings: RadioSettings) {
    let isReal = settings.backend == .bluez
    management = isReal ? Self.openManagement() : nil
    wantsRaw = isReal && settings.notifyUnsubscribed
    mayUseRaw = Capabilities.permitted.contains(.netRaw)
    Capabilities.give(
      up: wantsRaw ? .netAdmin : [.netAdmin, .netRaw], keepingAside: wantsRaw ? .netRaw : [])
  }

  private static func openManagement() -> Result<HCISocket, HCIError> {
    do throws(HCIError) {
      return .success(try ManagementSocket.bind())
    } catch {
      return .failure(error)
    }
  }

  /// The kernel channels in their present state.
  @LoopActor var doors: KernelChannels {
    var doors = KernelChannels()
    switch management {
    case .success(let socket): doors.management = .open(ManagementSocket(socket, scheduler: EventLoop.shared))
    case .failure(let error): doors.management = .shut(error.description)
    case nil: break
    }
    if wantsRaw {
      doors.raw =
        mayUseRaw ? .open(KernelHCI(makeListener: KernelHCI.listener)) : .shut("CAP_NET_RAW is missing")
    }
    return doors
  }
}
