import CommandLine
import Common
import DBus
import FullScreen
import Glibc
import Loop
import Tool
import Verifier

/// Runs `earshot verifier watch`: shows the kiosk's activity, fetches received credentials, and judges them by an
/// option or an operator's keys.
@LoopActor
final class WatchCommand {
  private let client: Client
  private let line: ParsedCommand
  private let display: WatchDisplay
  private var place: FilePlace?
  private lazy var program = line.value("exec").map { path in
    EventProgram(
      path, isQuiet: display.isScreen,
      complain: { [weak self] in self?.display.say(WatchReport(sentence: $0, tone: .bad, isComplaint: true)) })
  }
  private var model = WatchModel(WatchOptions())
  private var link: WatchLink?
  private var isDrawingSoon = false
  /// Whether a person or a signal ends the command.
  private var hasLeft = false
  private var end: CheckedContinuation<Result<ExitCode, Failure>, Never>?
  private var early: Result<ExitCode, Failure>?
  private var registrations: [Registration] = []
  private var timer: Registration?

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
    display = WatchDisplay(isJSON: line.flag("json"), isQuiet: line.flag("quiet"), note: line.value("note") ?? "")
  }

  func run() async throws(Failure) -> ExitCode {
    let options = try options()
    model = WatchModel(options)
    // A fetched credential that is not stored yet may exist nowhere else, so a signal ends the command only afterwards.
    return try await Interruption.hold(
      unanswered: "A credential may not have been stored completely.", patience: .seconds(60)
    ) { [self] interruption throws(Failure) in
      interruption.onSignal { [weak self] in self?.handle(.stop(.left)) }
      return try await follow()
    }
  }

  private func follow() async throws(Failure) -> ExitCode {
    let link = WatchLink(client) { [weak self] in self?.handle($0) }
    self.link = link
    defer { link.end() }
    try await link.begin()
    try display.open { [weak self] in self?.happened($0) }
    defer { display.close() }
    registrations = [
      EventLoop.shared.on(signal: SIGWINCH) { [weak self] in self?.drawSoon() },
      client.bus.onState { [weak self] in if case .lost = $0 { self?.lostBus() } },
    ]
    defer { (registrations, timer) = ([], nil) }
    // Draws events that arrived before the terminal was opened.
    drawSoon()
    tick()
    if let limit = line.seconds("for") {
      registrations.append(EventLoop.shared.schedule(after: limit) { [weak self] in self?.handle(.stop(.time)) })
    }
    let result = await withCheckedContinuation { continuation in
      if let early { continuation.resume(returning: early) } else { end = continuation }
    }
    // The program handles the events that wait, unless a person does not want to wait.
    if !hasLeft { await program?.finish() }
    return try result.get()
  }

  /// Parses and validates the options before any credential is fetched.
  private func options() throws(Failure) -> WatchOptions {
    if line.flag("accept"), line.flag("reject") {
      throw Failure(.usage, "--accept and --reject exclude each other.")
    }
    var options = WatchOptions()
    options.isOnce = line.flag("once")
    options.takesWaiting = line.flag("waiting")
    options.verdict = line.flag("accept") ? .accept : line.flag("reject") ? .reject : nil
    try program?.check()
    options.fetches = line.value("output") != nil || line.flag("show") || options.verdict != nil
    guard let path = line.value("output") else {
      // A program that fails must not lose a credential that the service erases when it is fetched.
      guard program == nil else { throw Failure(.usage, "--exec needs --output: each credential is stored first.") }
      return options
    }
    let place = try FilePlace(path)
    guard options.isOnce || place.isForMany else {
      throw Failure(
        .usage,
        "--output \(path) is one file, which the next credential would replace. Name a folder, or a file with {} in its name "
          + "for the transfer's, or add --once.")
    }
    self.place = place
    return options
  }

  private func finish(_ result: Result<ExitCode, Failure>) {
    guard let end else {
      early = early ?? result
      return
    }
    self.end = nil
    end.resume(returning: result)
  }

  private func lostBus() {
    finish(.failure(Failure(.noBus, "The connection to the bus is lost.")))
  }

  // MARK: Events

  private func handle(_ event: WatchEvent) {
    if case .stop(.left) = event { hasLeft = true }
    let date = date
    for action in model.handle(event, at: EventLoop.shared.now, date: date) { perform(action) }
    drawSoon()
  }

  private func happened(_ event: FullScreen.Event) {
    switch event {
    case .key(let key):
      switch display.press(key) {
      case .judge(let path, let verdict): handle(.ordered(path: path, verdict))
      case .leave: handle(.stop(.left))
      case .redraw, .suspend, nil: drawSoon()
      }
    case .resized: drawSoon()
    case .ended: handle(.stop(.left))
    }
  }

  /// Draws once for all events of one loop iteration.
  private func drawSoon() {
    guard !isDrawingSoon else { return }
    isDrawingSoon = true
    EventLoop.shared.soon { [weak self] in
      guard let self else { return }
      isDrawingSoon = false
      display.draw(model)
    }
  }

  /// Redraws each second while remaining times of phones are shown.
  private func tick() {
    if model.waiting.contains(where: { $0.view.verdictDeadline > 0 }) { drawSoon() }
    timer = EventLoop.shared.schedule(after: .seconds(1)) { [weak self] in self?.tick() }
  }

  // MARK: Actions

  private func perform(_ action: WatchAction) {
    switch action {
    case .report(let report):
      display.say(report)
      if !report.isReception, !report.members.isEmpty { program?.post(report.json(at: date)) }
    case .code(let code): display.say(code: code)
    case .finish(let result): finish(result)
    case .look(let path):
      call(path) { [client] path in
        .looked(path: path.string, await client.transferProperties(path))
      }
    case .check(let path):
      call(path) { [client] path in
        .checked(path: path.string, await client.transferProperties(path), claims: await client.claims(of: path))
      }
    case .take(let path, let fetch):
      call(path) { [weak self] path in await self?.take(path, fetch) }
    case .judge(let path, let verdict):
      call(path) { [weak self] path in await self?.judge(path, verdict) }
    }
  }

  private func call(_ path: String, _ body: @escaping @LoopActor (ObjectPath) async -> WatchEvent?) {
    guard let path = ObjectPath(path) else { return }
    Task { @LoopActor in
      if let event = await body(path) { self.handle(event) }
    }
  }

  private func take(_ path: ObjectPath, _ fetch: Bool) async -> WatchEvent {
    var taken = TakenCredential()
    do throws(Failure) {
      taken.properties = try await client.properties(path, TransferView.interface)
      if fetch {
        let credential = try await TransfersCommand.fetch(path, client)
        taken.bytes = credential.count
        taken.file = try place?.keep(credential, as: TransferView(path, [:]).name)
        try await handOver(path, taken, credential)
        if line.flag("show") { taken.shown = credential }
      }
      return .taken(path: path.string, taken)
    } catch {
      return .notTaken(path: path.string, await settled(error))
    }
  }

  /// Runs the program for a credential that is stored. If it fails, the credential is not judged.
  private func handOver(
    _ path: ObjectPath, _ taken: TakenCredential, _ credential: [UInt8]
  ) async throws(Failure) {
    guard let program else { return }
    var taken = taken
    taken.shown = credential
    let view = TransferView(path, taken.properties)
    let end = await program.run(WatchReport.reception(view, taken, nil, at: date).json(at: date))
    guard end.isSuccess else {
      let file = taken.file.map { " \(view.name) is in \($0)." } ?? ""
      throw Failure(.notWritten, program.failure(end) + file)
    }
  }

  /// The time of day now, in milliseconds since 1970-01-01 UTC.
  private var date: UInt64 { UInt64(clamping: SystemWallClock().milliseconds) }

  private func judge(_ path: ObjectPath, _ verdict: Verdict) async -> WatchEvent {
    do throws(Failure) {
      try await client.call(path, TransferView.interface, verdict.rawValue)
      return .judged(path: path.string, await client.transferProperties(path))
    } catch {
      return .notJudged(path: path.string, await settled(error), await client.transferProperties(path))
    }
  }

  /// Replaces a timeout by `notRunning` if the service has ended, because an ended service does not answer.
  private func settled(_ failure: Failure) async -> Failure {
    guard failure.code == .timeout, await !client.isRunning() else { return failure }
    return Failure(.notRunning, failure.text)
  }
}
