import Common
import HCI
import Journal
import Loop
import Radio

/// ATT over raw HCI, beside bluetoothd: it sends notifications to clients that bluetoothd would not notify, and knows
/// the last write of each client to each Client Characteristic Configuration (CCCD). Facts: bluez.md sections 10 and
/// 14.
@LoopActor
final class RawATT {
  /// The error of raw HCI, if it is not transient.
  private(set) var failure: String?

  private let door: KernelChannel<any RawHCI>
  /// Whether the kernel supports raw HCI values for clients to which it sends, too.
  private let isSafeBesideKernel: Bool
  private let links: PeerLinks
  private let counters: BlueZCounters
  private let onChange: @LoopActor () -> Void

  /// - Parameter onChange: called when `failure` may have changed.
  init(
    _ door: KernelChannel<any RawHCI>, _ repair: KernelRepair, links: PeerLinks, counters: BlueZCounters,
    onChange: @escaping @LoopActor () -> Void
  ) {
    self.door = door
    isSafeBesideKernel = repair == .present
    self.links = links
    self.counters = counters
    self.onChange = onChange
  }

  var isAvailable: Bool { door.way != nil }

  /// The reason why no values are sent by raw HCI; nil if they are, or if the configuration does not request raw HCI.
  var problem: String? {
    switch door {
    case .off: nil
    case .open: failure
    case .shut(let why): why
    }
  }

  /// Opens raw HCI for the adapter in use.
  func reopen() {
    guard let raw = door.way else { return }
    raw.closeAll()
    failure = nil
    guard let index = links.place?.index else { return }
    do throws(HCIError) {
      try raw.open(index)
    } catch {
      Log.shared.debug("Raw HCI cannot be used: \(error)")
      note(error)
    }
  }

  /// Stores a permanent error, which makes the radio degraded. A transient error is ignored: the next value may
  /// succeed, and bluetoothd reports a controller or link that is gone.
  private func note(_ error: HCIError) {
    guard !error.isPassing else { return }
    failure = error.description
    onChange()
  }

  // MARK: Sending

  /// Whether a value fits into one packet of the controller. Only such a value may be sent to a client to which
  /// bluetoothd also sends values. Between two packets of a longer value, the kernel could insert one of its own.
  func isShort(_ value: [UInt8], for link: PeerLink) -> Bool {
    guard isSafeBesideKernel, failure == nil, let raw = door.way, let index = links.place?.index else { return false }
    return value.count <= min(raw.packetLimit(of: index), link.valueLimit)
  }

  /// Sends a value as a notification, cut to the MTU of the link.
  func send(_ value: [UInt8], of characteristic: ServedCharacteristic, to link: PeerLink) -> Delivery.Fate {
    guard let raw = door.way, characteristic.handle != 0, let index = links.place?.index else { return .unreachable }
    let address = links.address(of: link)
    // If the kernel does not have the link, the value is not queued.
    if let known = try? raw.links(of: index), !known.contains(where: { $0.isUp && $0.address == address }) {
      return .unreachable
    }
    let limit = link.valueLimit
    if value.count > limit {
      counters.cutNotifications += 1
      Log.shared.debug("A value of \(value.count) bytes is cut to \(limit)", .link(link.id))
    }
    let notification = ATTNotification(handle: characteristic.handle, value: Array(value.prefix(limit)))
    let acceptance = raw.send(notification, to: address, on: index) { [weak self] in self?.decided($0) }
    guard acceptance == .accepted else { return .full }
    counters.forcedNotifications += 1
    return .accepted
  }

  private func decided(_ outcome: RawOutcome) {
    switch outcome {
    case .sent: failure = nil
    case .linkGone: counters.droppedNotifications += 1
    case .failed(let error):
      counters.droppedNotifications += 1
      Log.shared.debug("A value was not sent by raw HCI: \(error)")
      note(error)
    }
    onChange()
  }

  // MARK: Subscriptions

  /// The last write of a client to the CCCD of a characteristic; nil if the client wrote nothing, or without raw HCI.
  func configuration(of characteristic: ServedCharacteristic, by link: PeerLink) -> LastConfiguration? {
    guard let raw = door.way, let index = links.place?.index, characteristic.canNotify, characteristic.handle != 0
    else { return nil }
    return raw.configuration(of: characteristic.configurationHandle, by: links.address(of: link), on: index)
  }

  /// Whether the last CCCD write of a client ended its subscription; false if that write is unknown.
  func hasUnsubscribed(_ link: PeerLink, from characteristic: ServedCharacteristic) -> Bool {
    configuration(of: characteristic, by: link)?.configuration == .nothing
  }
}
