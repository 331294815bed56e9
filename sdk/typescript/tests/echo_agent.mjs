// An agent whose outputs are its inputs.
import { agent } from 'goalmill';

const echo = agent('ts_echo');
echo.action('say', (inputs) => inputs);
await echo.serve({ slots: 2 });
