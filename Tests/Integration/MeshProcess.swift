import Air
import Bitchat
import Common
import Crypto
import DBus
import Glibc
import Loop
import MeshStore
import TestSupport

@testable import Mesh

/// `earshotd` as a node of the mesh in a separate process, and a neighbour in this process whose state lasts as long
/// as the test.
@LoopActor
final class MeshProcess {
  let process: ServiceProcess
  let neighbour: MeshService
  /// Numbers of the neighbour's own messages, at each change of their delivery state.
  let progress = Mailbox<UInt32>()
  /// Numbers of the messages that the neighbour received.
  let arrivals = Mailbox<UInt32>()
  private var killAfter: Int?
  private var kill: () -> Void = {}

  init() async throws {
    process = try await ServiceProcess(
      """
      [Mesh]
      Enabled=yes
      Nickname=service
      TrustClock=yes
      """)
    var settings = MeshSettings()
    settings.nickname = "neighbour"
    settings.trustsClock = true
    let loop = EventLoop.shared
    neighbour = MeshService(
      radio: process.radio(), scheduler: loop, settings: settings,
      keeper: NodeStore(directory: nil, scheduler: loop, disk: loop))
    neighbour.messages.progress.addForGood { [progress] in progress.put($0.number) }
    neighbour.messages.arrivals.addForGood { [arrivals] in arrivals.put($0) }
    process.air.conditions.filter = { [weak self] _ in
      self?.count()
      return .deliver
    }
    neighbour.start()
  }

  func close() {
    neighbour.stop()
    process.close()
  }

  // MARK: The end of the service

  /// Kills the service after this number of further packets, and this delay.
  func kill(after packets: Int, pause: Duration) -> Mailbox<Bool> {
    let killed = Mailbox<Bool>()
    killAfter = packets
    kill = { [weak self] in
      self?.timer = EventLoop.shared.schedule(after: pause) { [weak self] in
        self?.process.end(SIGKILL)
        killed.put(true)
      }
    }
    return killed
  }

  private var timer: Registration?

  private func count() {
    guard let left = killAfter else { return }
    killAfter = left > 1 ? left - 1 : nil
    if killAfter == nil { kill() }
  }

  // MARK: The neighbour

  /// The delivery state of the neighbour's own message.
  func state(of number: UInt32) -> MeshMessage.State? { neighbour.messages.log[number]?.state }

  /// Waits until the receipt for the neighbour's message arrives.
  func delivered(_ number: UInt32) async throws {
    while state(of: number) != .delivered { _ = try await progress.next() }
  }

  /// How often the neighbour received a text.
  func copies(_ text: String) -> Int {
    neighbour.messages.log.messages.count { $0.text == text && $0.sender != neighbour.node.ownID }
  }

  /// Waits until the neighbour has received a text.
  func told(_ text: String) async throws {
    while copies(text) == 0 { _ = try await arrivals.next() }
  }

  // MARK: The service over D-Bus

  func call(_ method: String, _ arguments: [DBusValue] = []) async throws(DBusError) -> [DBusValue] {
    try await process.client.call("org.earshot", MeshAdaptor.path, MeshAdaptor.interfaceName, method, arguments)
  }

  /// The service's peer ID.
  func id() async throws -> String {
    let values = try await process.client.call(
      "org.earshot", MeshAdaptor.path, "org.freedesktop.DBus.Properties", "Get",
      [.string(MeshAdaptor.interfaceName), .string("PeerId")])
    return values.first?.asString ?? ""
  }

  /// The texts that the service lists, sent and received.
  func listed() async throws -> [String] {
    let rows = try await call("ListMessages", [.uint32(0), .uint32(5000)]).first?.asArray ?? []
    return rows.compactMap { $0.asArray?.dropFirst(5).first?.asString }
  }
}
