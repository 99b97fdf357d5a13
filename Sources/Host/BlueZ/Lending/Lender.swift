import Common
import HCI
import Journal
import Loop

/// Carries out the actions of a loan through the management socket.
@LoopActor
final class Lender<Setting: LentSetting, Read: ManagementCommand, Write: ManagementCommand>
where Read.Reply == Setting.Value {
  private var loan = Loan<Setting>()
  private let socket: ManagementSocket
  private let scheduler: any Scheduler
  private let read: Read
  private let write: (_ value: Setting.Value, _ found: Setting.Value) -> Write
  private let onChange: @LoopActor () -> Void
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  /// - Parameters:
  ///   - write: creates the command that replaces the found value by `value`.
  ///   - onChange: called when `problem` or `isSettled` may have changed.
  init(
    _: Setting.Type, _ socket: ManagementSocket, scheduler: any Scheduler, read: Read,
    write: @escaping (_ value: Setting.Value, _ found: Setting.Value) -> Write,
    onChange: @escaping @LoopActor () -> Void
  ) {
    self.socket = socket
    self.scheduler = scheduler
    self.read = read
    self.write = write
    self.onChange = onChange
  }

  var problem: String? { loan.problem }
  var isSettled: Bool { loan.isSettled }

  func handle(_ event: Loan<Setting>.Event) {
    let actions = loan.handle(event, at: scheduler.now)
    timer.set(loan.deadline)
    for action in actions { perform(action) }
    onChange()
  }

  private func perform(_ action: Loan<Setting>.Action) {
    switch action {
    case .read(let index):
      socket.call(read, on: index) { [weak self] result in
        switch result {
        case .success(let value): self?.handle(.found(value))
        case .failure(let failure): self?.failed(failure, Read.opcode)
        }
      }
    case .write(let value, let found, let index):
      socket.call(write(value, found), on: index) { [weak self] result in
        switch result {
        case .success: self?.handle(.written)
        case .failure(let failure): self?.failed(failure, Write.opcode)
        }
      }
    }
  }

  private func failed(_ failure: ManagementSocket.Failure, _ opcode: UInt16) {
    Log.shared.debug("Management command \(opcode) failed: \(failure.description)")
    handle(.failed(Self.refusal(failure)))
  }

  private static func refusal(_ failure: ManagementSocket.Failure) -> Loan<Setting>.Refusal {
    switch failure {
    case .refused(.invalidIndex): .gone
    case .refused(.notPowered), .refused(.rejected): .off(failure.description)
    case .refused(.busy), .timedOut, .tooMany: .passing(failure.description)
    case .refused, .malformed, .closed: .lasting(failure.description)
    }
  }
}
