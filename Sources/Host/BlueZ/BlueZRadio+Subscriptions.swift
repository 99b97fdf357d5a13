import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// The subscription state of clients, read from their writes to the Client Characteristic Configurations (CCCDs) where
/// bluetoothd reports it wrongly. Facts: bluez.md section 14.
///
/// Without raw HCI the state is the one that bluetoothd reports.
extension BlueZRadio {
  /// Time that bluetoothd has to close the socket of a client that unsubscribed. A socket that is still open then is
  /// closed here.
  private static let closingTime = Duration.seconds(1)
  /// Maximum number of times that one value is signalled to a client that changes its subscription meanwhile.
  private static let attemptLimit = 4

  /// The last write of a client to the CCCD of a characteristic; nil if the client wrote nothing, or without raw HCI.
  func configuration(of characteristic: ServedCharacteristic, by link: LinkTable.Entry) -> LastConfiguration? {
    guard let raw = doors.raw.way, let index = place?.index, characteristic.canNotify, characteristic.handle != 0 else {
      return nil
    }
    return raw.configuration(of: characteristic.configurationHandle, by: address(of: link), on: index)
  }

  /// Whether the last CCCD write of a client ended its subscription; false if that write is unknown.
  func hasUnsubscribed(_ link: LinkTable.Entry, from characteristic: ServedCharacteristic) -> Bool {
    configuration(of: characteristic, by: link)?.configuration == .nothing
  }

  /// Whether the client subscribed to indications and is the only subscriber, so that bluetoothd can send it an
  /// indication that no other client receives.
  func wantsIndication(_ link: LinkTable.Entry, of characteristic: ServedCharacteristic) -> Bool {
    configuration(of: characteristic, by: link)?.configuration == .indications
      && isOnlySubscriber(link, of: characteristic)
  }

  /// Whether no other client can be subscribed: none wrote a subscription, and none is paired, because bluetoothd stores
  /// the subscriptions of paired clients.
  private func isOnlySubscriber(_ link: LinkTable.Entry, of characteristic: ServedCharacteristic) -> Bool {
    if onlyClient == link.device { return true }
    return links.all.allSatisfy { other in
      guard other !== link else { return true }
      let configuration = configuration(of: characteristic, by: other)?.configuration ?? .nothing
      return configuration == .nothing && daemon.devices[other.device]?.isPaired == false
    } && !hasUnlinkedPeers
  }

  // MARK: A bluetoothd before 5.76

  /// Sends a value that no other client may receive through a bluetoothd that sends each value to all subscribers.
  func sendExactly(_ value: [UInt8], of characteristic: ServedCharacteristic, to id: LinkID) -> Delivery.Fate {
    guard let link = links[id] else { return .unreachable }
    let last = configuration(of: characteristic, by: link)
    if isSignalled(characteristic, to: link, last) { return signalExactly(value, of: characteristic, to: link, last) }
    // Raw HCI that failed permanently is tried again if there is no better path.
    guard doors.raw.way != nil,
      rawFailure == nil || !characteristic.isNotifying || last?.configuration == .nothing
    else { return signalExactly(value, of: characteristic, to: link, last) }
    let fate = sendRaw(value, of: characteristic, to: link)
    guard fate == .unreachable, onlyClient == link.device || links.count == 1 else { return fate }
    return signalExactly(value, of: characteristic, to: link, last)
  }

  /// Whether a signal brings a value to this client, in the form of its subscription, and to no other client.
  ///
  /// - Parameter last: the client's last write to the CCCD.
  private func isSignalled(
    _ characteristic: ServedCharacteristic, to link: LinkTable.Entry, _ last: LastConfiguration?
  ) -> Bool {
    guard characteristic.isNotifying else { return false }
    switch last?.configuration {
    case .nothing?: return false
    case .notifications?: return onlyClient == link.device
    case .indications?: return isOnlySubscriber(link, of: characteristic)
    case nil: return onlyClient == link.device && characteristic.subscriber == link.id
    }
  }

  private func signalExactly(
    _ value: [UInt8], of characteristic: ServedCharacteristic, to link: LinkTable.Entry, _ last: LastConfiguration?,
    attempt: Int = 1
  ) -> Delivery.Fate {
    let fate = signal(value, of: characteristic, to: .link(link.id)).fate(of: link.id)
    if fate == .accepted {
      unsettled.append(
        UnsettledSignal(
          value: value, characteristic: characteristic, link: link.id, configuration: last?.number,
          changes: characteristic.changes, attempt: attempt))
    }
    return fate
  }

  /// Called when bluetoothd has handled these signals. A client whose subscription changed meanwhile may have missed its
  /// value, because bluetoothd drops the value of a client that is not subscribed at that moment: the value is sent again.
  func repeatUnsettled(_ signals: [UnsettledSignal]) {
    for signal in signals {
      guard let characteristic = signal.characteristic, let link = links[signal.link] else { continue }
      let last = configuration(of: characteristic, by: link)
      guard signal.changes != characteristic.changes || signal.configuration != last?.number else { continue }
      counters.repeatedNotifications += 1
      Log.shared.debug("A value is sent again: the client has changed its subscription meanwhile", .link(link.id))
      let isIndicated = last?.configuration == .indications && isSignalled(characteristic, to: link, last)
      if isIndicated || doors.raw.way == nil, signal.attempt < Self.attemptLimit {
        _ = signalExactly(signal.value, of: characteristic, to: link, last, attempt: signal.attempt + 1)
      } else {
        _ = sendRaw(signal.value, of: characteristic, to: link)
      }
    }
  }

  // MARK: A bluetoothd from 5.76 on

  /// Called when bluetoothd has closed a client's socket. If bluetoothd has not read the last value from it, the value is
  /// sent by raw HCI: a value for this client alone has to arrive whether the client is subscribed or not.
  func sendUnread(by socket: PacketSocket, of characteristic: ServedCharacteristic, to link: LinkTable.Entry) {
    guard let value = characteristic.takeUnread(of: link.id, from: socket) else { return }
    counters.repeatedNotifications += 1
    _ = sendRaw(value, of: characteristic, to: link)
  }

  /// Called when a client has written a CCCD. If the client unsubscribed before this program answered `AcquireNotify`,
  /// bluetoothd keeps the socket open and drops the values that it reads from it.
  func configured(_ seen: SeenConfiguration) {
    guard keepsClientsApart, seen.index == place?.index, seen.configuration == .nothing,
      let link = link(at: seen.address)
    else { return }
    for application in applications.values {
      for characteristic in application.characteristics.values
      where characteristic.canNotify && characteristic.handle != 0
        && characteristic.configurationHandle == seen.attribute
      {
        characteristic.ending[link.id] = scheduler.schedule(after: Self.closingTime) {
          [weak self, weak characteristic] in
          guard let self, let characteristic, let link = links[link.id] else { return }
          characteristic.ending[link.id] = nil
          guard hasUnsubscribed(link, from: characteristic) else { return }
          closeForgotten(link, of: characteristic)
        }
      }
    }
  }

  private func closeForgotten(_ link: LinkTable.Entry, of characteristic: ServedCharacteristic) {
    guard let socket = characteristic.sockets.removeValue(forKey: link.id) else { return }
    socket.close()
    Log.shared.debug("bluetoothd has a socket for a client that has unsubscribed", .link(link.id))
    delegate?.used(characteristic.application, by: link.id, .unsubscribed(characteristic.id))
    delegate?.hasRoom(link.id)
  }
}

/// A value for one client in a signal that bluetoothd may not have handled yet.
struct UnsettledSignal {
  let value: [UInt8]
  weak var characteristic: ServedCharacteristic?
  let link: LinkID
  /// The number of the client's last CCCD write at the time of the signal.
  let configuration: UInt64?
  /// The value of `ServedCharacteristic.changes` at the time of the signal.
  let changes: UInt64
  /// Number of times that the value was signalled, this one included.
  let attempt: Int
}
