import ASN
import Config
import Crypto
import DBus
import Hosting
import Journal
import LocalSockets
import Loop
import Social
import SocialStore
import Store

/// The social server as a daemon: `earshot-sociald`.
@LoopActor
public final class SocialDaemon: DaemonBody {
  public nonisolated static let busName = "org.earshot.Social"
  /// Time that pending requests have to end when the daemon stops.
  private nonisolated static let restLimit = Duration.seconds(5)

  /// The opened state directory: keys and store.
  private struct Opened: Sendable {
    let keys: ServiceKeys
    let store: SQLiteBlobStore
    let directory: any Directory
  }

  private let settings: SocialSettings
  private let bus: BusConnection
  private let worker = SerialWorker("store")
  private let clock = SystemWallClock()
  private var control: SocialControl?
  private var sessions: SessionControl?
  private var listeners: SocialListeners<SQLiteBlobStore>?
  /// The worker that reads the key files and the certificate.
  private let disk = SerialWorker("keys")
  private let resolver = HostResolver()
  private var face: SocialAdaptor?
  private weak var frame: DaemonFrame?
  private var problems: [String] = []
  private var end: Registration?
  private var onRest: (@LoopActor () -> Void)?

  private init(_ settings: SocialSettings, _ bus: BusConnection) {
    (self.settings, self.bus) = (settings, bus)
    bus.objects.access = ServiceAccess.rule()
  }

  /// The program with its options and settings.
  public nonisolated static var program: DaemonProgram {
    DaemonProgram(
      "earshot-sociald", "A social server (ASN), with its interface on D-Bus.", tool: "earshot social",
      busName: busName, version: ManagerAdaptor.version, defaults: defaults, files: files,
      messages: MessageID.daemon + MessageID.social,
      problems: { [$0[SocialSettings.self].problem].compactMap { $0 } },
      interfaces: { objects.map(\.interface) },
      prepare: { _ in { configuration, bus, _ in SocialDaemon(configuration[SocialSettings.self], bus) } })
  }

  /// The default settings.
  public nonisolated static var defaults: Configuration {
    Configuration(
      of: "earshot-sociald, the social server", file: "social.conf", program: "earshot-sociald",
      [SocialSettings.self, BusSettings.self, LogSettings.self])
  }

  /// `social.conf` in the directories of Earshot's configuration.
  nonisolated static var files: ConfigurationFiles {
    ConfigurationFiles(name: "social.conf", directories: ["/etc/earshot", "/run/earshot", "/usr/lib/earshot"])
  }

  /// The objects on the bus, for interface files and documentation.
  public static var objects: [DescribedObject] {
    [
      DescribedObject(SocialAdaptor.path.string, SocialAdaptor.interface(nil)),
      DescribedObject("\(SocialAdaptor.path.string)/sessionN", SocialSession.interface(nil)),
    ]
  }

  // MARK: Start and stop

  public var statusLine: String {
    guard let control else { return "The store is being opened." }
    let service = control.service
    let addresses = service.addresses.map(\.text).joined(separator: " ")
    let listens = addresses.isEmpty ? "The server listens at no address." : "Listens at \(addresses)."
    return ([listens, control.trouble] + (listeners?.problems ?? []) + problems).filter { !$0.isEmpty }.joined(
      separator: " ")
  }

  public func begin(in frame: DaemonFrame, then: @escaping @LoopActor () -> Void) {
    self.frame = frame
    if let problem = settings.problem {
      Log.shared.error("\(problem)", id: .configurationProblem)
      return frame.stop(.failed)
    }
    let directory = settings.directory
    worker.offload(
      { Self.open(directory) },
      then: { [weak self] result in
        guard let self else { return }
        switch result {
        case .success(let opened):
          start(opened) {
            then()
            frame.showStatus()
          }
        case .failure(let error):
          Log.shared.error("\(error.sentence)", id: .socialStoreTrouble)
          return frame.stop(.failed)
        }
      })
  }

  private nonisolated static func open(_ directory: String?) -> Result<Opened, Store.StoreError> {
    do throws(Store.StoreError) {
      let state = try StateDirectory(path: directory)
      let keys = try ServiceKeys(in: state)
      do throws(ASN.StoreError) {
        let store = try SQLiteBlobStore(in: state)
        return .success(Opened(keys: keys, store: store, directory: state.directory))
      } catch {
        throw Store.StoreError(.failed, DBusError(error).message)
      }
    } catch {
      return .failure(error)
    }
  }

  private func start(_ opened: Opened, then: @escaping @LoopActor () -> Void) {
    let random = SystemRandom()
    let clock = clock
    let epoch: @LoopActor () -> UInt64 = { UInt64(max(0, clock.nanoseconds)) }
    let engine = CommandEngine(
      configuration: CommandEngine<SQLiteBlobStore>.Configuration(settings, keys: opened.keys), store: opened.store,
      random: random)
    let service = SocialService(
      server: SocialServer(
        configuration: SocialServer.Configuration(settings, keys: opened.keys), random: random),
      worker: StoreWorker(engine, worker: worker, epoch: epoch), scheduler: EventLoop.shared, epoch: epoch)
    let control = SocialControl(
      service, keys: opened.keys, settings, directory: opened.directory.path)
    self.control = control
    let sessions = SessionControl(
      opened.directory, disk: disk, resolver: resolver, bus: bus, manager: SocialAdaptor.manager)
    sessions.trustFile = settings.trustedCertificates
    self.sessions = sessions
    face = SocialAdaptor(control, sessions, on: bus.objects)
    control.onTrouble = { [weak self] in self?.frame?.showStatus() }
    if opened.store.missingFiles > 0 {
      Log.shared.error("\(opened.store.missingFiles) files of blobs are missing", id: .socialStoreDamaged)
      problems.append("\(opened.store.missingFiles) files of blobs are missing.")
    }
    let listeners = SocialListeners(
      service, settings.listen, certificate: settings.certificateFiles, resolver: resolver, disk: disk)
    listeners.onReport = { [weak self] report in
      switch report {
      case .listening(let address): Log.shared.notice("Listening at \(address.text)", id: .socialListening)
      case .notListening(let problem): Log.shared.error("\(problem)", id: .socialNotListening)
      case .certificate(let path): Log.shared.notice("The certificate \(path) is in use", id: .socialCertificate)
      case .noCertificate(let problem): Log.shared.error("\(problem)", id: .socialNoCertificate)
      }
      self?.frame?.showStatus()
    }
    self.listeners = listeners
    listeners.start(then: then)
  }

  /// Reads the certificate again. Most settings need a restart.
  public func apply(_ configuration: Configuration) {
    let settings = configuration[SocialSettings.self]
    listeners?.reload(settings.certificateFiles)
    sessions?.trustFile = settings.trustedCertificates
  }

  public func stop(then: @escaping @LoopActor () -> Void) {
    guard let control else { return then() }
    onRest = then
    end = EventLoop.shared.schedule(after: Self.restLimit) { [weak self] in
      Log.shared.warning("The store was not closed in time, and is no longer waited for")
      self?.rest()
    }
    control.service.stop { [weak self, weak control] in
      // What is committed is durable; closing the database only tidies up.
      control?.service.run({ engine, _ in engine.store.close() }, then: { self?.rest() })
    }
  }

  private func rest() {
    let then = onRest
    (onRest, end) = (nil, nil)
    then?()
  }
}
