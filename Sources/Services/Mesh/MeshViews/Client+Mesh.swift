import DBus
import Loop
import Tool

extension Client {
  /// Messages with a number above `after`, oldest first.
  ///
  /// - Parameter limit: at most so many; 0 for as many as the service gives at a time.
  public func meshMessages(after: UInt32, limit: UInt32 = 0) async throws(Failure) -> [MeshMessageView] {
    let values = try await call(
      MeshNames.path, MeshNames.interface, "ListMessages", [.uint32(after), .uint32(limit)],
      of: MeshNames.feature)
    return (values.first?.asArray ?? []).compactMap { MeshMessageView($0) }
  }

  /// Calls a method of the mesh.
  @discardableResult
  public func mesh(_ method: String, _ arguments: DBusValue...) async throws(Failure) -> [DBusValue] {
    try await call(MeshNames.path, MeshNames.interface, method, arguments, of: MeshNames.feature)
  }

  /// Calls a method of a peer's object.
  ///
  /// - Parameter peer: 16 lower-case hexadecimal digits.
  @discardableResult
  public func meshPeer(_ peer: String, _ method: String, _ arguments: DBusValue...) async throws(Failure) -> [DBusValue]
  {
    try await call(MeshNames.path(ofPeer: peer), MeshNames.peerInterface, method, arguments)
  }
}
