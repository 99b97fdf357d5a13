import Common
import Loop
import Radio

extension AirSpace {
  /// Has `connection` come up at the peer's next advertising event, or end when there is none in time.
  func startConnecting(_ connection: AirConnection) {
    connecting.append(connection)
    let timeout = connection.conditions.connectTimeout
    connection.giveUp = agenda.at(agenda.now.advanced(by: timeout)) {
      connection.close(reason: "\(connection.target) did not answer within \(timeout).", by: .client)
    }
    tryConnecting(connection)
  }

  func stopConnecting(_ connection: AirConnection) {
    connecting.removeAll { $0 === connection }
    connection.giveUp.map(agenda.cancel)
    connection.attempt.map(agenda.cancel)
  }

  /// Somebody may have become connectable.
  func retryConnecting() {
    for connection in connecting { tryConnecting(connection) }
  }

  private func tryConnecting(_ connection: AirConnection) {
    guard connection.attempt == nil, let peer = node(connection.target), hears(connection.central, peer),
      peer !== connection.central, let event = peer.nextAdvertisingEvent(from: agenda.now)
    else { return }
    let moment = event.advanced(by: connection.conditions.latency)
    connection.attempt = agenda.at(moment) { [weak self] in
      guard let self else { return }
      connection.attempt = nil
      if hears(connection.central, peer), peer.nextAdvertisingEvent(from: agenda.now) != nil {
        stopConnecting(connection)
        connection.open(with: peer)
      } else {
        tryConnecting(connection)
      }
    }
  }
}
