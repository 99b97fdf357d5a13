import Common
import Journal
import Loop
import Radio
import Transfers
import Tuvali

/// One transfer of the wallet: engine, scan and link.
@LoopActor
final class WalletSession {
  let transfer: Transfer

  private var engine: WalletEngine
  private let radio: any Radio
  private let scheduler: any Scheduler
  private let onEnd: @LoopActor () -> Void
  private var scan: Registration?
  private var link: (any Link)?
  private var isSent = false
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  init(
    _ engine: WalletEngine, _ transfer: Transfer, radio: any Radio, scheduler: any Scheduler,
    onEnd: @escaping @LoopActor () -> Void
  ) {
    self.engine = engine
    self.transfer = transfer
    self.radio = radio
    self.scheduler = scheduler
    self.onEnd = onEnd
  }

  func start() { handle(.start) }

  func stop() { handle(.stop) }

  private func handle(_ event: WalletEngine.Event) {
    for action in engine.handle(event, at: scheduler.now) { perform(action) }
    transfer.update(Transfer.Figures(engine.progress))
    timer.set(engine.deadline)
  }

  private func perform(_ action: WalletEngine.Action) {
    switch action {
    case .scan(let services): startScan(services)
    case .stopScanning: scan = nil
    case .connect(let token): connect(to: BluetoothAddress(token))
    case .discover: link?.discover()
    case .exchangeMTU(let mtu): link?.exchangeMTU(mtu)
    case .subscribe(let characteristic, let dialect):
      transfer.met(transfer.peer, dialect: dialect.name.rawValue)
      link?.subscribe(to: dialect.id(of: characteristic))
    case .write(let value, let characteristic, let dialect, let withResponse):
      link?.write(value, to: dialect.id(of: characteristic), as: withResponse ? .request : .command)
    case .seal(let job):
      scheduler.offload({ job.run() }, then: { [weak self] in self?.handle(.sealed($0)) })
    case .disconnect: link?.disconnect()
    case .tell(let notice): tell(notice)
    }
  }

  private func startScan(_ services: [BluetoothUUID]) {
    do throws(RadioError) {
      scan = try radio.scan(for: services) { [weak self] event in
        guard case .sighted(let scanResult) = event else { return }
        let data = Dictionary(scanResult.serviceData.map { ($0.service, $0.bytes) }, uniquingKeysWith: { $1 })
        self?.handle(.sighted(token: scanResult.address.value, serviceData: data))
      }
    } catch {
      refused(error)
    }
  }

  private func connect(to address: BluetoothAddress) {
    transfer.met(address, dialect: "")
    do throws(RadioError) {
      link = try radio.connect(to: address) { [weak self] in self?.linkEvent($0) }
    } catch {
      refused(error)
    }
  }

  /// Reports an immediate error of the radio to the engine, in the next loop iteration.
  private func refused(_ error: RadioError) {
    scheduler.soon { [weak self] in self?.handle(.radioRefused(error.sentence)) }
  }

  private func linkEvent(_ event: LinkEvent) {
    switch event {
    case .connected: handle(.connected)
    case .discovered(let services):
      let found = services.map { ($0.uuid, Set($0.characteristics.map(\.uuid))) }
      handle(.discovered(Dictionary(found, uniquingKeysWith: { $0.union($1) })))
    case .mtuChanged(let mtu): handle(.mtuChanged(mtu))
    case .subscribed(let id): withCharacteristic(id) { handle(.subscribed($0)) }
    case .written(let id, let error):
      withCharacteristic(id) { handle(.written($0, error.map(Self.failure))) }
    case .notified(let id, let value): withCharacteristic(id) { handle(.notified($0, value)) }
    case .disconnected(let reason):
      Log.shared.info("The link has ended: \(reason)", .transfer("\(transfer.number)"), .protocolName("tuvali"))
      link = nil
      handle(.disconnected)
    }
  }

  private nonisolated static func failure(_ error: ATTError) -> WalletEngine.WriteFailure {
    switch error {
    case .busy: .busy
    case .noCapacity: .noCapacity
    default: .other
    }
  }

  private func withCharacteristic(_ id: CharacteristicID, _ body: (Characteristic) -> Void) {
    let dialects = [Dialect.v05, .v04]
    guard let dialect = dialects.first(where: { $0.service == id.service }),
      let characteristic = dialect.characteristic(for: id.characteristic)
    else { return }
    body(characteristic)
  }

  // MARK: Events

  private func tell(_ notice: WalletEngine.Notice) {
    switch notice {
    case .connected: transfer.enter(.connected)
    case .secured: break
    case .announced: transfer.enter(.transferring)
    case .sent:
      isSent = true
      transfer.enter(.received)
      Log.shared.info("The verifier has the credential", .transfer("\(transfer.number)"), .protocolName("tuvali"))
    case .status(let accepted):
      transfer.enter(accepted ? .accepted : .rejected)
      let verdict: String = accepted ? "accepted" : "rejected"
      Log.shared.info(
        "The verifier \(verdict) the credential", id: .transferDecided, .transfer("\(transfer.number)"),
        .protocolName("tuvali"))
    case .failed(let error):
      transfer.enter(isSent ? .undecided : .failed, error: error)
      Log.shared.warning(
        "A transfer failed: \(error)", id: .transferFailed, .transfer("\(transfer.number)"), .error(error),
        .protocolName("tuvali"))
    case .ended:
      scan = nil
      link = nil
      if isSent, !transfer.state.isEnd {
        transfer.enter(.undecided)
        Log.shared.warning(
          "The verifier has the credential and gave no verdict on it", .transfer("\(transfer.number)"),
          .protocolName("tuvali"))
      }
      transfer.end()
      onEnd()
    }
  }
}

extension Transfer.Figures {
  fileprivate init(_ progress: WalletEngine.Progress) {
    self.init()
    mtu = progress.mtu
    bytesExpected = progress.bytesExpected
    bytesTransferred = progress.bytesSent
    chunksExpected = progress.chunksExpected
    chunksMissing = progress.chunksMissing
  }
}
