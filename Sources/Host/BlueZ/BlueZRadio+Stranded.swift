import Common
import Journal
import Loop
import Radio

/// Orphaned subscriptions: bluetoothd closes the socket of a client that is still subscribed.
///
/// When a subscribed client leaves, bluetoothd from 5.76 on (observed in 5.82) frees the socket of the client that subscribed first
/// (bluez/bluez #1452, #2456). It keeps that client's subscription, and never requests a socket again. A signal still reaches the client,
/// because it is sent to all subscribers, as before 5.76. Facts: bluez.md section 12.
extension BlueZRadio {
  /// Maximum time between the closing of sockets because a client left and the report that the client's link has ended.
  private static let leavingTime = Duration.seconds(1)

  /// bluetoothd has closed a client's socket, because the client unsubscribed or left, or because another client left.
  func socketClosed(_ id: LinkID, of characteristic: ServedCharacteristic) {
    if let socket = characteristic.sockets.removeValue(forKey: id) {
      if let link = links[id] { sendUnread(by: socket, of: characteristic, to: link) }
      socket.close()
    }
    // Without another client, now or a moment ago, no other client has left.
    guard links.count > 1 || hasSomebodyLeft(characteristic) else { return decide(id, of: characteristic) }
    characteristic.closing[id] = scheduler.schedule(after: Self.leavingTime) { [weak self, weak characteristic] in
      guard let self, let characteristic else { return }
      decide(id, of: characteristic)
    }
  }

  private func decide(_ id: LinkID, of characteristic: ServedCharacteristic) {
    characteristic.closing[id] = nil
    guard links[id] != nil else { return }
    if hasSomebodyLeft(characteristic) {
      characteristic.stranded.insert(id)
      Log.shared.debug("bluetoothd has closed a client's socket as another client left", .link(id))
    } else {
      delegate?.used(characteristic.application, by: id, .unsubscribed(characteristic.id))
    }
    delegate?.hasRoom(id)
  }

  /// A client whose socket was closed has a new one.
  func settle(_ id: LinkID, of characteristic: ServedCharacteristic) {
    guard characteristic.closing.removeValue(forKey: id) != nil || characteristic.stranded.remove(id) != nil else {
      return
    }
    EventLoop.shared.soon { [weak self] in self?.delegate?.hasRoom(id) }
  }

  private func hasSomebodyLeft(_ characteristic: ServedCharacteristic) -> Bool {
    characteristic.lastLeft.map { $0.advanced(by: Self.leavingTime * 2) >= scheduler.now } ?? false
  }

  /// Whether a client without a socket can only receive a value together with all other subscribers.
  func needsSignal(_ value: [UInt8], of characteristic: ServedCharacteristic, to id: LinkID) -> Bool {
    guard characteristic.stranded.contains(id), let link = links[id] else { return false }
    switch characteristic.reach {
    case .exact: return doors.raw.way == nil || rawFailure != nil || wantsIndication(link, of: characteristic)
    case .subscribers: return !isShort(value, for: link)
    }
  }
}
