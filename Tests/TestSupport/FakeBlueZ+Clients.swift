import DBus
import Loop

/// What the clients of registered applications do: they write, read, subscribe and hear.
extension FakeBlueZ {
  /// A client's write, as bluetoothd hands it on.
  ///
  /// - Returns: the error that it was refused with.
  @discardableResult
  public func write(
    _ value: [UInt8], to uuid: String, from device: ObjectPath?, mtu: UInt16? = 517, offset: UInt16? = nil,
    options more: [String: DBusValue] = [:]
  ) async -> DBusError? {
    await withCheckedContinuation { continuation in
      write(value, to: uuid, from: device, mtu: mtu, offset: offset, options: more) {
        continuation.resume(returning: $0)
      }
    }
  }

  /// The same without waiting for its answer.
  public func write(
    _ value: [UInt8], to uuid: String, from device: ObjectPath?, mtu: UInt16? = 517, offset: UInt16? = nil,
    options more: [String: DBusValue] = [:], then: @escaping @LoopActor (DBusError?) -> Void
  ) {
    var options: [String: DBusValue] = ["link": .string("LE")]
    options["device"] = device.map { .objectPath($0) }
    options["mtu"] = mtu.map { .uint16($0) }
    options["offset"] = offset.map { .uint16($0) }
    options.merge(more) { $1 }
    call(uuid, "WriteValue", [.bytes(value), .options(options)]) { result in
      if case .failure(let error) = result { then(error) } else { then(nil) }
    }
  }

  public func read(_ uuid: String, offset: UInt16 = 0) async throws -> [UInt8] {
    let options: [String: DBusValue] = offset == 0 ? [:] : ["offset": .uint16(offset)]
    let result = await withCheckedContinuation { continuation in
      call(uuid, "ReadValue", [.options(options)]) { continuation.resume(returning: $0) }
    }
    return try result.get().first?.asBytes ?? []
  }

  /// A first client subscribes, or the last one no longer wants to hear.
  public func subscribe(_ uuid: String, _ isWanted: Bool = true) async throws {
    let result = await withCheckedContinuation { continuation in
      subscribe(uuid, isWanted) { continuation.resume(returning: $0) }
    }
    _ = try result.get()
  }

  /// The same without waiting for its answer.
  public func subscribe(
    _ uuid: String, _ isWanted: Bool = true, then: @escaping @LoopActor (Result<[DBusValue], DBusError>) -> Void
  ) {
    for index in applications.indices { applications[index][uuid]?.isSubscribed = isWanted }
    call(uuid, isWanted ? "StartNotify" : "StopNotify", [], then: then)
  }

  /// A property of somebody's object, asked for as bluetoothd.
  public func property(
    _ name: String, of path: ObjectPath, _ interface: String, at client: String
  ) async throws -> DBusValue? {
    let values = try await connection.call(
      client, path, "org.freedesktop.DBus.Properties", "Get", [.string(interface), .string(name)])
    return values.first?.unwrapped
  }

  private func call(
    _ uuid: String, _ method: String, _ arguments: [DBusValue],
    then: @escaping @LoopActor (Result<[DBusValue], DBusError>) -> Void
  ) {
    for application in applications {
      guard let characteristic = application[uuid] else { continue }
      return connection.call(
        application.owner, characteristic.path, "org.bluez.GattCharacteristic1", method, arguments, then: then)
    }
    then(.failure(.notFound("No application has \(uuid).")))
  }

  /// A characteristic of somebody's changed: its subscribers hear the value.
  func changed(_ message: Message) {
    guard message.arguments.count == 3, let value = message.arguments[1]["Value"]?.asBytes else { return }
    for application in applications where application.owner == message.sender {
      guard let found = application.characteristics.first(where: { $0.value.path == message.path }) else { continue }
      guard found.value.isSubscribed else { continue }
      notified.put(Notification(uuid: found.key, value: value))
      onNotified(Notification(uuid: found.key, value: value))
    }
  }
}
