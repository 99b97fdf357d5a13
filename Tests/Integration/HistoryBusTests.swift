import Air
import Checking
import DBus
import Hosting
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali
import Verifier

@Suite("ListHistory on the bus", .serialized)
struct HistoryBusTests {
  init() { EventLoop.shared.runInBackground() }

  /// A verifier with a history on the real disk, on a bus of its own, and a program that calls it.
  @LoopActor
  private final class Desk {
    let folder: ScratchFolder
    let bus: PrivateBus
    let verifier: VerifierService
    private let air: AirSpace
    private let service: BusConnection
    private let client: BusConnection
    private let face: VerifierAdaptor

    /// - Parameter isForViewer: whether the calling program is only a viewer.
    init(keepFor: Duration, isForViewer: Bool = false) async throws {
      let loop = EventLoop.shared
      folder = try ScratchFolder()
      bus = try PrivateBus()
      air = AirSpace(scheduler: loop, seed: 1)
      let history = TransferHistoryStore(directory: folder.path, keepFor: keepFor, scheduler: loop)
      verifier = VerifierService(
        radio: air.addNode().tenant(loop), scheduler: loop, settings: VerifierService.Settings(), history: history)
      service = BusConnection(address: .address(bus.address))
      client = BusConnection(address: .address(bus.address))
      if isForViewer {
        service.objects.access = AccessRule(refusal: "Not permitted.", views: { _ in true }, allows: { _ in false })
      }
      service.objects.exportManager(ManagerAdaptor.path)
      face = VerifierAdaptor(verifier, on: service.objects, manager: ManagerAdaptor.path)
      service.connect(name: "org.earshot")
      try await service.ready()
      client.connect()
      try await client.ready()
    }

    func close() {
      for connection in [service, client] { connection.close() }
      bus.stop()
    }

    /// Calls `ListHistory`, and returns the IDs, the results and the reasons.
    func list(
      before id: UInt64, limit: UInt32
    ) async throws(DBusError) -> [(id: UInt64, result: String, reason: String)] {
      let values = try await client.call(
        "org.earshot", VerifierAdaptor.path, VerifierAdaptor.interfaceName, "ListHistory",
        [.uint64(id), .uint32(limit)])
      return (values.first?.asArray ?? []).compactMap { value in
        guard let parts = value.asArray, parts.count == 7, let id = parts[0].asUInt64, let result = parts[4].asString,
          let reason = parts[5].asString
        else { return nil }
        return (id, result, reason)
      }
    }
  }

  @Test("ListHistory returns the results of ended transfers in pages, the newest first")
  @LoopActor
  func pages() async throws {
    let desk = try await Desk(keepFor: .seconds(3600))
    defer { desk.close() }
    for state in [Transfer.State.failed, .accepted, .rejected] {
      desk.verifier.transfers.add(.incoming, .connected).enter(state)
    }
    let newest = try await desk.list(before: 0, limit: 2)
    #expect(newest.map(\.result) == ["rejected", "accepted"])
    let rest = try await desk.list(before: newest.last?.id ?? 0, limit: 0)
    #expect(rest.map(\.result) == ["failed"])
  }

  @Test("A viewer gets the codes of failed transfers, and not the checker's reasons", arguments: [false, true])
  @LoopActor
  func viewer(isViewer: Bool) async throws {
    let desk = try await Desk(keepFor: .seconds(3600), isForViewer: isViewer)
    defer { desk.close() }
    let checked = desk.verifier.transfers.add(.incoming, .connected)
    checked.note(.done(CheckVerdict(.failed)))
    checked.enter(.rejected)
    desk.verifier.transfers.add(.incoming, .connected)
      .enter(.failed, error: TuvaliError(.verifierTooManyMissing, .protocolViolation, "Lost."))
    let results = try await desk.list(before: 0, limit: 0)
    #expect(results.map(\.result) == ["failed", "rejected"])
    #expect(results.map(\.reason) == ["TVV_TRA_002", isViewer ? "" : "checkerFailed"])
  }

  @Test("With HistoryFor=0s, ListHistory fails with NotReady")
  @LoopActor
  func off() async throws {
    let desk = try await Desk(keepFor: .zero)
    defer { desk.close() }
    var failure: DBusError?
    do throws(DBusError) {
      _ = try await desk.list(before: 0, limit: 0)
    } catch {
      failure = error
    }
    #expect(failure?.is(.notReady) == true)
  }
}
