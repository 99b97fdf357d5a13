import Common
import Loop
import Radio

/// The GATT client role of a node on a link.
extension AirEnd {
  func submit(_ operation: Operation, for client: AirClient) {
    guard isOpen else { return }
    operations.append((operation, client))
    sendNext()
  }

  /// Sends the next operations. It calls no handler, because it may run within a call from the client.
  private func sendNext() {
    while isOpen, request == nil, let (operation, client) = operations.first {
      if case .command = operation, commands >= max(1, conditions.commandWindow) { return }
      operations.popFirst()
      switch operation {
      case .discover:
        ask(for: client) { server in .discovered(server.node.discoverableServices) }
      case .exchangeMTU(let mtu):
        ask(for: client) { server in
          let agreed = max(ATT.firstMTU, min(mtu, server.conditions.maximumMTU))
          server.agreed(on: agreed)
          return .mtuChanged(agreed)
        }
      case .subscribe(let characteristic):
        ask(for: client) { server in
          server.subscribe(to: characteristic)
          return .subscribed(characteristic)
        }
      case .request(let value, let characteristic):
        sendRequest(value, characteristic, client)
      case .command(let value, let characteristic):
        sendCommand(value, characteristic, client)
      }
    }
  }

  private func fits(_ value: [UInt8]) -> Bool {
    value.count <= ATT.valueLimit(mtu: mtu)
  }

  private func sendCommand(_ value: [UInt8], _ characteristic: CharacteristicID, _ client: AirClient) {
    air.agenda.next { client.happened(.written(characteristic, error: nil)) }
    guard fits(value) else { return }
    commands += 1
    transmit(.command, value, characteristic) { [self] in
      commands -= 1
      sendNext()
    }
  }

  private func sendRequest(_ value: [UInt8], _ characteristic: CharacteristicID, _ client: AirClient) {
    lastRequest += 1
    request = Request(number: lastRequest, client: client, characteristic: characteristic)
    guard fits(value) else {
      air.agenda.next { [self, lastRequest] in finish(lastRequest, .written(characteristic, error: .invalidLength)) }
      return
    }
    transmit(.request, value, characteristic) { [self, lastRequest] in startTimeout(lastRequest) }
  }

  /// Sends a request that `serve` handles at the other end, and whose answer is an event.
  private func ask(for client: AirClient, _ serve: @escaping @LoopActor (AirEnd) -> LinkEvent) {
    lastRequest += 1
    let number = lastRequest
    request = Request(number: number, client: client)
    air.agenda.at(outgoing.reserve(from: now, conditions.latency)) { [self] in
      guard let peer else { return }
      let event = serve(peer)
      if isOpen { receiveAnswer(number, event) }
    }
  }

  // MARK: Answers

  /// The peer answers a write request.
  func answer(_ number: UInt64, _ error: ATTError?) {
    guard isOpen, let request, request.number == number, let characteristic = request.characteristic else { return }
    receiveAnswer(number, .written(characteristic, error: error))
  }

  /// Schedules the arrival of the peer's answer at this node, and reports it.
  private func receiveAnswer(_ number: UInt64, _ event: LinkEvent) {
    guard let peer else { return }
    request?.application = nil
    request?.characteristic = nil
    request?.timeout.map(air.agenda.cancel)
    request?.timeout = nil
    air.agenda.at(peer.outgoing.reserve(from: now, conditions.latency)) { [self] in finish(number, event) }
  }

  private func finish(_ number: UInt64, _ event: LinkEvent) {
    guard isOpen, let request, request.number == number else { return }
    self.request = nil
    switch event {
    case .mtuChanged(let mtu): agreed(on: mtu)
    case .subscribed(let characteristic): request.client.subscriptions.insert(characteristic)
    default: break
    }
    request.client.happened(event)
    sendNext()
  }

  /// Starts the timeout of a request that has arrived or was lost, and is not answered.
  private func startTimeout(_ number: UInt64) {
    guard isOpen, let request, request.number == number, request.characteristic != nil else { return }
    self.request?.timeout = air.agenda.at(now.advanced(by: conditions.requestTimeout)) { [self] in
      guard self.request?.number == number else { return }
      let reason = "A request was not answered within \(conditions.requestTimeout)."
      close(reason, forPeer: Self.peerDisconnected)
    }
  }
}
