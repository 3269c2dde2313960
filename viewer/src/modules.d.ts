// The worker, built on its own and taken in as text.
declare module "worker-source" {
  const source: string;
  export default source;
}
