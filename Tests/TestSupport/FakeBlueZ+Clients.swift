import DBus
import Loop

/// The clients of registered applications: they write, read, subscribe and receive values.
extension FakeBlueZ {
  /// Delivers a client's write as bluetoothd does.
  ///
  /// - Returns: the error with which it was refused.
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

  /// Delivers a client's write without waiting for the reply.
  public func write(
    _ value: [UInt8], to uuid: String, from device: ObjectPath?, mtu: UInt16? = 517, offset: UInt16? = nil,
    options more: [String: DBusValue] = [:], then: @escaping @LoopActor (DBusError?) -> Void
  ) {
    var options: [String: DBusValue] = ["link": .string("LE")]
    options["device"] = device.map { .objectPath($0) }
    options["mtu"] = mtu.map { .uint16($0) }
    options["offset"] = offset.map { .uint16($0) }
    options.merge(more) { $1 }
    if let device, let characteristic = applications.lazy.compactMap({ $0[uuid] }).first {
      let key = SocketKey(client: device, characteristic: characteristic.path)
      if let socket = writers[key], socket.isOpen, renewed.remove(key) == nil {
        writesBySocket += 1
        return then(socket.send(value) == .sent ? nil : .failed("The socket is full."))
      }
      if characteristic.offersWriteSockets { return acquire(value, to: uuid, key, options, then) }
    }
    call(uuid, "WriteValue", [.bytes(value), .options(options)]) { result in
      if case .failure(let error) = result { then(error) } else { then(nil) }
    }
  }

  /// Replaces the write socket of a client at the client's next write. The old socket stays open until then.
  public func renewWriteSocket(of device: ObjectPath, at uuid: String) {
    guard let characteristic = applications.lazy.compactMap({ $0[uuid] }).first else { return }
    renewed.insert(SocketKey(client: device, characteristic: characteristic.path))
  }

  /// Requests a socket for a client with its first write. Like bluetoothd it has one list of writes for all clients:
  /// writes of others meanwhile go into that socket as well. The list holds no copies: each write in it has the bytes
  /// of the last one, and its own length. Facts: `acquire_write` of `src/gatt-database.c`.
  private func acquire(
    _ value: [UInt8], to uuid: String, _ key: SocketKey, _ options: [String: DBusValue],
    _ then: @escaping @LoopActor (DBusError?) -> Void
  ) {
    guard let index = applications.firstIndex(where: { $0[uuid] != nil }) else { return then(.notFound(uuid)) }
    if applications[index][uuid]?.unsent?.append(value) != nil { return then(nil) }
    applications[index][uuid]?.unsent = [value]
    call(uuid, "AcquireWrite", [.options(options)]) { [weak self] result in
      guard let self, let index = applications.firstIndex(where: { $0[uuid] != nil }) else {
        return then(.notFound(uuid))
      }
      let list = applications[index][uuid]?.unsent ?? []
      let last = list.last ?? []
      let unsent = list.map { write in Array((last + write.dropFirst(last.count)).prefix(write.count)) }
      applications[index][uuid]?.unsent = nil
      guard case .success(let values) = result, values.count == 2, let end = values[0].asDescriptor,
        let socket = try? PacketSocket(owning: end)
      else { return then(.failed("AcquireWrite gave no socket.")) }
      writers.updateValue(socket, forKey: key)?.close()
      writesBySocket += unsent.count
      tell("write socket of \(key.client.lastElement)")
      then(unsent.allSatisfy { socket.send($0) == .sent } ? nil : .failed("The socket is full."))
    }
  }

  public func read(_ uuid: String, offset: UInt16 = 0, from device: ObjectPath? = nil) async throws -> [UInt8] {
    var options: [String: DBusValue] = offset == 0 ? [:] : ["offset": .uint16(offset)]
    options["device"] = device.map { .objectPath($0) }
    let result = await withCheckedContinuation { continuation in
      call(uuid, "ReadValue", [.options(options)]) { continuation.resume(returning: $0) }
    }
    return try result.get().first?.asBytes ?? []
  }

  /// Reads a property of a program's object, as bluetoothd.
  public func property(
    _ name: String, of path: ObjectPath, _ interface: String, at client: String
  ) async throws -> DBusValue? {
    let values = try await connection.call(
      client, path, "org.freedesktop.DBus.Properties", "Get", [.string(interface), .string(name)])
    return values.first?.unwrapped
  }

  func call(
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
}
