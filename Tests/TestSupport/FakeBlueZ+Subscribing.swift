import DBus
import Loop

/// Clients that subscribe and receive values. Facts: bluez.md section 3, bluez-debian13.md section 1.
extension FakeBlueZ {
  struct SocketKey: Hashable {
    let client: ObjectPath
    let characteristic: ObjectPath
  }

  // MARK: Subscribing

  /// Subscribes or unsubscribes a client.
  ///
  /// - Parameters:
  ///   - client: nil for the only connected peer, or for an unknown one.
  ///   - isIndicated: whether it asks for indications.
  public func subscribe(
    _ uuid: String, _ isWanted: Bool = true, by client: ObjectPath? = nil, isIndicated: Bool = false
  ) async throws {
    let result = await withCheckedContinuation { continuation in
      subscribe(uuid, isWanted, by: client, isIndicated: isIndicated) { continuation.resume(returning: $0) }
    }
    _ = try result.get()
  }

  /// Subscribes or unsubscribes a client without waiting for the reply.
  public func subscribe(
    _ uuid: String, _ isWanted: Bool = true, by client: ObjectPath? = nil, isIndicated: Bool = false,
    then: @escaping @LoopActor (Result<[DBusValue], DBusError>) -> Void
  ) {
    let connected = devices.filter(\.value.isConnected).map(\.key)
    let client = client ?? (connected.count == 1 ? connected.first : nil)
    guard let index = applications.firstIndex(where: { $0[uuid] != nil }),
      let characteristic = applications[index][uuid]
    else { return then(.failure(.notFound("No application has \(uuid)."))) }
    if keepsClientsApart, characteristic.offersSockets {
      guard let client else { return then(.failure(.notFound("No client is connected."))) }
      note(isWanted, isIndicated, by: client, characteristic.path)
      return acquire(uuid, isWanted, by: client, characteristic.path, then)
    }
    let isSubscribed = client != nil && characteristic.subscribers.contains(client)
    let isKindNew = client.map { characteristic.indicated.contains($0) != isIndicated } ?? true
    // Writing the present value again changes nothing.
    guard isWanted ? !isSubscribed || isKindNew : isSubscribed || client == nil else { return then(.success([])) }
    note(isWanted, isIndicated, by: client, characteristic.path)
    // bluetoothd reports each write that enables values, and the end of the last subscription that it counts.
    if isWanted {
      applications[index][uuid]?.subscriptionCount += 1
      return call(uuid, "StartNotify", [], then: then)
    }
    let count = max(0, characteristic.subscriptionCount - 1)
    applications[index][uuid]?.subscriptionCount = count
    guard count == 0, characteristic.subscriptionCount > 0 else { return then(.success([])) }
    call(uuid, "StopNotify", [], then: then)
  }

  /// Applies a client's CCCD write to the subscription that bluetoothd records.
  private func note(_ isWanted: Bool, _ isIndicated: Bool, by client: ObjectPath?, _ path: ObjectPath) {
    for index in applications.indices {
      for (uuid, characteristic) in applications[index].characteristics where characteristic.path == path {
        if let position = characteristic.subscribers.firstIndex(of: client), client != nil || !isWanted {
          applications[index][uuid]?.subscribers.remove(at: position)
        }
        if isWanted { applications[index][uuid]?.subscribers.append(client) }
        guard let client else { continue }
        if isWanted, isIndicated {
          applications[index][uuid]?.indicated.insert(client)
        } else {
          applications[index][uuid]?.indicated.remove(client)
        }
      }
    }
  }

  /// Requests a socket. A client that has unsubscribed by the time of the reply still gets it, as with bluetoothd.
  private func acquire(
    _ uuid: String, _ isWanted: Bool, by client: ObjectPath, _ path: ObjectPath,
    _ then: @escaping @LoopActor (Result<[DBusValue], DBusError>) -> Void
  ) {
    let key = SocketKey(client: client, characteristic: path)
    // The client's unsubscription closes the socket; a client that subscribes again has unsubscribed before.
    close(key)
    guard isWanted else { return then(.success([])) }
    let options: [String: DBusValue] = [
      "device": .objectPath(client), "mtu": .uint16(517), "link": .string("LE"),
    ]
    call(uuid, "AcquireNotify", [.options(options)]) { [weak self] result in
      guard let self, case .success(let values) = result else {
        if self?.sockets[key] == nil { self?.note(false, false, by: client, path) }
        return then(result)
      }
      guard values.count == 2, let end = values[0].asDescriptor, values[1].asUInt16 != nil,
        let socket = try? PacketSocket(owning: end)
      else { return then(.failure(.failed("AcquireNotify gave no socket."))) }
      // Like bluetoothd, which uses the first of two requested sockets, and leaves the other one open and unread.
      guard sockets[key] == nil else {
        unread.append(socket)
        return then(result)
      }
      sockets[key] = socket
      socketOrder.append(key)
      if !leavesValues { listen(to: socket, key, uuid) }
      then(result)
    }
  }

  private func close(_ key: SocketKey) {
    sockets.removeValue(forKey: key)?.close()
    socketOrder.removeAll { $0 == key }
  }

  private func listen(to socket: PacketSocket, _ key: SocketKey, _ uuid: String) {
    socket.onReadable = { [weak self, weak socket] in
      while let socket, case .packet(let value) = socket.receive(limit: 512) {
        // Like bluetoothd, which reads an empty packet as the end.
        guard !value.isEmpty else { return socket.close() }
        self?.pass(value, of: uuid, to: key.client)
      }
    }
  }

  /// Reads the values that were left in the sockets, and later ones as they arrive.
  public func takeValues() {
    leavesValues = false
    for (key, socket) in sockets {
      for application in applications {
        guard let uuid = application.characteristics.first(where: { $0.value.path == key.characteristic })?.key else {
          continue
        }
        listen(to: socket, key, uuid)
      }
    }
  }

  /// Ends the subscriptions of a client that has disconnected.
  func endSubscriptions(of client: ObjectPath) {
    for (key, socket) in writers where key.client == client {
      socket.close()
      writers[key] = nil
    }
    for application in applications where keepsClientsApart {
      for characteristic in application.characteristics.values
      where characteristic.offersSockets && characteristic.subscribers.contains(client) {
        // bluetoothd frees the socket of the first subscriber, and then finds that this client's link has ended.
        if let first = socketOrder.first(where: { $0.characteristic == characteristic.path }) { close(first) }
        close(SocketKey(client: client, characteristic: characteristic.path))
        note(false, false, by: client, characteristic.path)
      }
    }
    for application in applications {
      for (uuid, characteristic) in application.characteristics where characteristic.subscribers.contains(client) {
        subscribe(uuid, false, by: client) { _ in }
      }
    }
  }

  func dropSockets() {
    for socket in sockets.values { socket.close() }
    for socket in writers.values { socket.close() }
    (sockets, socketOrder, writers, renewed, unread) = ([:], [], [:], [], [])
  }

  // MARK: Values for clients

  /// Delivers a value to a subscribed client, as the notification or indication that it has enabled. Has no effect for
  /// other clients.
  private func pass(_ value: [UInt8], of uuid: String, to client: ObjectPath?) {
    guard let characteristic = applications.lazy.compactMap({ $0[uuid] }).first,
      characteristic.subscribers.contains(client)
    else { return }
    let isIndication = client.map(characteristic.indicated.contains) ?? false
    heard(Notification(uuid: uuid, value: value, client: client, isIndication: isIndication))
  }

  private func heard(_ notification: Notification) {
    notified.put(notification)
    onNotified(notification)
  }

  /// Records whether an application offers sockets for writes, by the presence of the property.
  private func noteOffer(_ message: Message) {
    let isOffered = message.arguments[1]["WriteAcquired"] != nil
    let isWithdrawn = message.arguments[2].asStrings?.contains("WriteAcquired") == true
    guard isOffered || isWithdrawn else { return }
    for index in applications.indices where applications[index].owner == message.sender {
      for uuid in applications[index].characteristics.keys where applications[index][uuid]?.path == message.path {
        applications[index][uuid]?.offersWriteSockets = isOffered
        tell("write sockets \(isOffered)")
      }
    }
  }

  /// Handles a program's changed characteristic: all subscribers receive the value, to whatever destination the
  /// signal was sent.
  func changed(_ message: Message) {
    guard message.arguments.count == 3 else { return }
    noteOffer(message)
    guard let value = message.arguments[1]["Value"]?.asBytes else { return }
    for application in applications where application.owner == message.sender {
      guard let found = application.characteristics.first(where: { $0.value.path == message.path }) else { continue }
      if message.destination == nil { broadcasts.append(Notification(uuid: found.key, value: value)) }
      for client in found.value.subscribers { pass(value, of: found.key, to: client) }
    }
  }
}
