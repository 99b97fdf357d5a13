import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// Which clients want values, where bluetoothd does not say it: raw HCI sees what clients write to the Client
/// Characteristic Configurations (CCCDs). Facts: bluez.md section 14.
///
/// Without raw HCI only what bluetoothd says is known.
extension BlueZRadio {
  /// A client whose last write ended its subscription has no socket after this time, unless bluetoothd has forgotten
  /// to close it.
  private static let closingTime = Duration.seconds(1)
  /// A value is signalled again to a client that goes on changing its subscription, at most so often.
  private static let attemptLimit = 4

  /// What a client wrote last to the CCCD of a characteristic; nil where it wrote nothing, or that is not known.
  func configuration(of characteristic: ServedCharacteristic, by link: LinkTable.Entry) -> LastConfiguration? {
    guard let raw = doors.raw.way, let index = place?.index, characteristic.canNotify, characteristic.handle != 0 else {
      return nil
    }
    return raw.configuration(of: characteristic.configurationHandle, by: address(of: link), on: index)
  }

  /// Whether a client is known to have unsubscribed.
  func hasUnsubscribed(_ link: LinkTable.Entry, from characteristic: ServedCharacteristic) -> Bool {
    configuration(of: characteristic, by: link)?.configuration == .nothing
  }

  /// Whether a client takes indications alone, and can have one that no other client hears.
  func wantsIndication(_ link: LinkTable.Entry, of characteristic: ServedCharacteristic) -> Bool {
    configuration(of: characteristic, by: link)?.configuration == .indications
      && isOnlySubscriber(link, of: characteristic)
  }

  /// Whether no other client can have subscribed: the others are not paired, for bluetoothd keeps the subscriptions
  /// of those that are, and have not written that they want values.
  private func isOnlySubscriber(_ link: LinkTable.Entry, of characteristic: ServedCharacteristic) -> Bool {
    if onlyClient == link.device { return true }
    return links.all.allSatisfy { other in
      guard other !== link else { return true }
      let configuration = configuration(of: characteristic, by: other)?.configuration ?? .nothing
      return configuration == .nothing && daemon.devices[other.device]?.isPaired == false
    } && !hasUnlinkedPeers
  }

  // MARK: A bluetoothd before 5.76

  /// Sends a value that no other client may hear, at a bluetoothd that sends each value to all subscribers.
  func sendExactly(_ value: [UInt8], of characteristic: ServedCharacteristic, to id: LinkID) -> Delivery.Fate {
    guard let link = links[id] else { return .unreachable }
    if isSignalled(characteristic, to: link) { return signalExactly(value, of: characteristic, to: link) }
    // A raw HCI that failed for good is tried again where there is nothing better.
    guard doors.raw.way != nil,
      rawFailure == nil || !characteristic.isNotifying || hasUnsubscribed(link, from: characteristic)
    else { return signalExactly(value, of: characteristic, to: link) }
    let fate = sendRaw(value, of: characteristic, to: link)
    guard fate == .unreachable, onlyClient == link.device || links.count == 1 else { return fate }
    return signalExactly(value, of: characteristic, to: link)
  }

  /// Whether a signal brings a value to this client, in the form that it asked for, and to no other.
  private func isSignalled(_ characteristic: ServedCharacteristic, to link: LinkTable.Entry) -> Bool {
    guard characteristic.isNotifying else { return false }
    switch configuration(of: characteristic, by: link)?.configuration {
    case .nothing?: return false
    case .notifications?: return onlyClient == link.device
    case .indications?: return isOnlySubscriber(link, of: characteristic)
    case nil: return onlyClient == link.device && characteristic.subscriber == link.id
    }
  }

  private func signalExactly(
    _ value: [UInt8], of characteristic: ServedCharacteristic, to link: LinkTable.Entry, attempt: Int = 1
  ) -> Delivery.Fate {
    let fate = signal(value, of: characteristic, to: .link(link.id)).fate(of: link.id)
    if fate == .accepted {
      let number = configuration(of: characteristic, by: link)?.number
      unsettled.append(
        UnsettledSignal(
          value: value, characteristic: characteristic, link: link.id, configuration: number,
          changes: characteristic.changes, attempt: attempt))
    }
    return fate
  }

  /// bluetoothd has handled these signals. A client whose subscription changed meanwhile may have got nothing:
  /// bluetoothd drops what is for a client that is not subscribed when its turn comes. It gets the value again.
  func repeatUnsettled(_ signals: [UnsettledSignal]) {
    for signal in signals {
      guard let characteristic = signal.characteristic, let link = links[signal.link] else { continue }
      let configuration = configuration(of: characteristic, by: link)
      guard signal.changes != characteristic.changes || signal.configuration != configuration?.number else { continue }
      counters.repeatedNotifications += 1
      Log.shared.debug("A value is sent again: the client has changed its subscription meanwhile", .link(link.id))
      let isIndicated = configuration?.configuration == .indications && isSignalled(characteristic, to: link)
      if isIndicated || doors.raw.way == nil, signal.attempt < Self.attemptLimit {
        _ = signalExactly(signal.value, of: characteristic, to: link, attempt: signal.attempt + 1)
      } else {
        _ = sendRaw(signal.value, of: characteristic, to: link)
      }
    }
  }

  // MARK: A bluetoothd from 5.76 on

  /// A client's socket is at its end. What no other client may hear reaches the client whether it is subscribed or
  /// not, so the last value is sent past bluetoothd where bluetoothd has not taken it.
  func sendUnread(by socket: PacketSocket, of characteristic: ServedCharacteristic, to link: LinkTable.Entry) {
    guard let value = characteristic.takeUnread(of: link.id, from: socket) else { return }
    counters.repeatedNotifications += 1
    _ = sendRaw(value, of: characteristic, to: link)
  }

  /// A client has written a CCCD. Where it has unsubscribed before this program had answered `AcquireNotify`,
  /// bluetoothd opens the socket all the same, and drops what comes by it.
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

/// A value that went to one client by a signal which bluetoothd has perhaps not handled yet.
struct UnsettledSignal {
  let value: [UInt8]
  weak var characteristic: ServedCharacteristic?
  let link: LinkID
  /// The number of the client's last write of the CCCD when the value was sent.
  let configuration: UInt64?
  /// The characteristic's changes then.
  let changes: UInt64
  /// How often the value has been signalled.
  let attempt: Int
}
